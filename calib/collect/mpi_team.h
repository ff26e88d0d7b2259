#pragma once

#include <memory>

#include "calib/collect/team.h"

namespace nibble::calib {

/// The processes of an mpirun, through Boost.MPI. Built where that is found (NIBBLE_MPI).
///
/// Sums of doubles are MPI_Allreduce, whose order depends on the number of processes only: a sum over N processes
/// differs from a single process's by at most N · 2^-53 of the sum of magnitudes.
class MpiTeam final : public Team {
 public:
  MpiTeam();            ///< starts MPI; at most one at a time
  ~MpiTeam() override;  ///< ends it
  std::size_t size() const override;
  std::size_t rank() const override;
  void sum(std::span<double> values) override;
  void min(std::span<float> values) override;
  void max(std::span<float> values) override;
  bool all(bool value) override;
  /// Ends every process of the team at once with this exit code: one failed, the others would wait for it forever.
  [[noreturn]] void abort(int exit_code);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nibble::calib

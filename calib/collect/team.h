#pragma once

#include <cstddef>
#include <span>

namespace nibble::calib {

/// The processes that share one calibration. This one works alone; calib/collect/mpi_team.h joins those of an mpirun.
/// Every member calls the same functions in the same order; each call returns the same result to all of them.
class Team {
 public:
  virtual ~Team() = default;
  virtual std::size_t size() const { return 1; }
  virtual std::size_t rank() const { return 0; }  ///< below size(); rank 0 writes the files
  /// Element-wise over the members, in place. Sums are rounded in double, in an order fixed by the number of members.
  virtual void sum(std::span<double>) {}
  virtual void min(std::span<float>) {}
  virtual void max(std::span<float>) {}
  virtual bool all(bool value) { return value; }  ///< true if it is true everywhere
};

}  // namespace nibble::calib

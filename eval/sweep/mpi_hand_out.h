#pragma once

#include <memory>

#include "eval/sweep/hand_out.h"

namespace nibble::eval {

/// Among the processes of an mpirun, through Boost.MPI: the first one deals, on a thread of its own, to whoever asks,
/// and works too. MPI must have been started for calls from one thread at a time (serialized). Built where Boost.MPI is
/// found (NIBBLE_MPI).
///
/// The end of life waits, in the first process, until all others have asked for the last time, for which they get no
/// more jobs; every process makes and destroys one. One that fails before must end all of them: the first would wait
/// for it for ever.
class MpiHandOut final : public HandOut {
 public:
  explicit MpiHandOut(std::size_t jobs);
  ~MpiHandOut() override;
  std::optional<std::size_t> next() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nibble::eval

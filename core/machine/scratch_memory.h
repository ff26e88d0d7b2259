#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "core/machine/large_buffer.h"

namespace nibble {

/// While one lives, the large buffers (of a Matrix, of a LargeVector) of the thread that made it, and of the loops that
/// this thread runs (parallel_for), take no more than `held_bytes` of anonymous memory together. Those beyond are
/// mapped files without a name in `directory`, room for them reserved on the disk: the system keeps of them in memory
/// what it has room for and writes out the rest, as it does with a mapped checkpoint; more anonymous memory it could
/// only have killed us for. (In a directory that is itself memory, a tmpfs, nothing is gained.) Buffers may outlive it.
/// Results do not depend on it.
class ScratchMemory {
 public:
  ScratchMemory(std::filesystem::path directory, std::uint64_t held_bytes);
  ~ScratchMemory();
  ScratchMemory(const ScratchMemory&) = delete;
  ScratchMemory& operator=(const ScratchMemory&) = delete;

  struct State;

 private:
  std::shared_ptr<State> state_;
  State* outer_;  ///< of a ScratchMemory around this one, or null
};

/// The ScratchMemory that a thread works under, lent to another for the life of a LentScratch; null: none.
class LentScratch {
 public:
  static ScratchMemory::State* of_this_thread();
  explicit LentScratch(ScratchMemory::State* state);
  ~LentScratch();
  LentScratch(const LentScratch&) = delete;
  LentScratch& operator=(const LentScratch&) = delete;

 private:
  ScratchMemory::State* before_;
};

}  // namespace nibble

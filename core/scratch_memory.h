#pragma once

#include <filesystem>

#include "core/large_buffer.h"

namespace nibble {

/// While one lives, the large buffers that its thread asks for (of a Matrix, of a LargeVector) are mapped files without
/// a name in `directory`, room for them reserved on the disk. The system then keeps of them in memory what it has room
/// for and writes out the rest, as it does with a mapped checkpoint; anonymous memory it could only have killed us for.
/// Buffers may outlive it. Results do not depend on it.
class ScratchMemory {
 public:
  explicit ScratchMemory(std::filesystem::path directory);
  ~ScratchMemory();
  ScratchMemory(const ScratchMemory&) = delete;
  ScratchMemory& operator=(const ScratchMemory&) = delete;

 private:
  std::filesystem::path directory_;
  const std::filesystem::path* outer_;  ///< of a ScratchMemory around this one, or null
};

}  // namespace nibble

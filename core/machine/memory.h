#pragma once

#include <cstdint>
#include <memory>

namespace nibble {

/// Resident memory of this process, from the kernel (0 where it does not tell).
struct MemoryUse {
  std::uint64_t anonymous_bytes = 0;      ///< heap and stacks now (RssAnon)
  std::uint64_t peak_resident_bytes = 0;  ///< largest resident set so far, mapped files included (VmHWM)
};
MemoryUse memory_use();

/// Samples anonymous memory every few milliseconds on a thread of its own while it lives: the kernel keeps a peak only
/// for the whole resident set, which counts mapped checkpoints too.
class PeakAnonymousMemory {
 public:
  PeakAnonymousMemory();
  ~PeakAnonymousMemory();
  PeakAnonymousMemory(const PeakAnonymousMemory&) = delete;
  PeakAnonymousMemory& operator=(const PeakAnonymousMemory&) = delete;
  std::uint64_t bytes() const;  ///< the largest value seen so far

 private:
  struct Sampler;
  std::unique_ptr<Sampler> sampler_;
};

}  // namespace nibble

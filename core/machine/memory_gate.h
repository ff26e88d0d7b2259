#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace nibble {

/// Lets pieces of work through while together they hold at most `limit` units of memory; one alone always passes (and
/// has ScratchMemory map what is too much).
class MemoryGate {
 public:
  explicit MemoryGate(std::uint64_t limit) : limit_(limit) {}

  /// Passage through the gate for the life of this object; waits for it at first.
  class Pass {
   public:
    Pass(MemoryGate& gate, std::uint64_t units) : gate_(gate), units_(units) {
      std::unique_lock lock(gate_.mutex_);
      gate_.freed_.wait(lock, [&] { return gate_.held_ == 0 || gate_.held_ + units_ <= gate_.limit_; });
      gate_.held_ += units_;
    }
    ~Pass() {
      {
        const std::lock_guard lock(gate_.mutex_);
        gate_.held_ -= units_;
      }
      gate_.freed_.notify_all();
    }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    MemoryGate& gate_;
    std::uint64_t units_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable freed_;
  std::uint64_t limit_ = 0, held_ = 0;
};

}  // namespace nibble

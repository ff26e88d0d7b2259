#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <utility>

#include "core/scratch_memory.h"

namespace nibble::quant {

/// Lets pieces of work through while together they hold at most `limit` bytes. One that needs more passes alone, and
/// its large buffers are mapped files in `scratch` (ScratchMemory).
class MemoryGate {
 public:
  MemoryGate(std::uint64_t limit, std::filesystem::path scratch) : limit_(limit), scratch_(std::move(scratch)) {}

  /// Passage through the gate for the life of this object, of the thread that works; waits for it at first.
  class Pass {
   public:
    Pass(MemoryGate& gate, std::uint64_t bytes) : gate_(gate), bytes_(bytes) {
      std::unique_lock lock(gate_.mutex_);
      gate_.freed_.wait(lock, [&] { return gate_.held_ == 0 || gate_.held_ + bytes_ <= gate_.limit_; });
      gate_.held_ += bytes_;
      if (bytes_ > gate_.limit_) mapped_.emplace(gate_.scratch_);
    }
    ~Pass() {
      mapped_.reset();
      {
        const std::lock_guard lock(gate_.mutex_);
        gate_.held_ -= bytes_;
      }
      gate_.freed_.notify_all();
    }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    MemoryGate& gate_;
    std::uint64_t bytes_;
    std::optional<ScratchMemory> mapped_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable freed_;
  std::uint64_t limit_ = 0, held_ = 0;
  std::filesystem::path scratch_;
};

}  // namespace nibble::quant

#pragma once

#include <mutex>
#include <optional>
#include <string>

namespace nibble::model {

/// A fingerprint that is computed on first use, then kept. Threads: any.
class KeptFingerprint {
 public:
  template <class Compute>
  std::string get(const Compute& compute) const {
    {
      const std::lock_guard lock(mutex_);
      if (kept_) return *kept_;
    }
    // Computed without the lock: a thread that waited for it inside a parallel_for() body would keep this one from the
    // thread pool. Two threads that ask first both compute, and agree.
    std::string computed = compute();
    const std::lock_guard lock(mutex_);
    kept_ = computed;
    return computed;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::optional<std::string> kept_;
};

}  // namespace nibble::model

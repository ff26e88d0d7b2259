#pragma once

#include <atomic>
#include <cstddef>
#include <optional>

namespace nibble::eval {

/// Gives the jobs of a sweep to those who ask, each once, in order. Threads: next() may be called by several.
class HandOut {
 public:
  virtual ~HandOut() = default;
  virtual std::optional<std::size_t> next() = 0;
};

/// Among the threads of one process.
class LocalHandOut final : public HandOut {
 public:
  explicit LocalHandOut(std::size_t jobs) : jobs_(jobs) {}
  std::optional<std::size_t> next() override {
    const std::size_t job = next_.fetch_add(1);
    return job < jobs_ ? std::optional(job) : std::nullopt;
  }
  /// Nobody gets a job any more.
  void stop() { next_ = jobs_; }

 private:
  std::atomic<std::size_t> next_{0};
  std::size_t jobs_ = 0;
};

}  // namespace nibble::eval

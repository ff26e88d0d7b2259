#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "core/progress.h"
#include "quant/job/plan/result.h"

namespace nibble::quant {

/// Whether the caller of quantize_model() hears of each weight, or only of the progress.
enum class Announce { kYes, kNo };

/// Tells the caller of quantize_model() how far it is: one call at a time, from whichever thread finished a weight, and
/// under the lock that all threads report under. So a slow sink stalls every one that has something to report.
class JobReporter {
 public:
  JobReporter(ProgressSink progress, TensorSink tensors)
      : progress_(std::move(progress)), tensors_(std::move(tensors)) {}

  /// Starts a stage of `total` weights, or of another unit.
  void begin(std::string stage, std::uint64_t total, std::string unit = "weights") {
    const std::lock_guard lock(mutex_);
    stage_ = std::move(stage), done_ = 0, found_ = 0, total_ = total, unit_ = std::move(unit);
    report();
  }
  /// A weight is finished.
  void announce(const TensorResult& result) {
    const std::lock_guard lock(mutex_);
    if (tensors_) tensors_(result);
  }
  /// That many more are done; kFound: an earlier run did them.
  enum class Work { kDone, kFound };
  void advance(std::uint64_t count, Work work = Work::kDone) {
    const std::lock_guard lock(mutex_);
    done_ += count;
    if (work == Work::kFound) found_ += count;
    report();
  }

 private:
  void report() const {
    if (!progress_) return;
    progress_({.stage = stage_,
               .done = static_cast<double>(done_),
               .total = static_cast<double>(total_),
               .unit = unit_,
               .found = static_cast<double>(found_)});
  }

  ProgressSink progress_;
  TensorSink tensors_;
  std::mutex mutex_;
  std::string stage_, unit_;
  std::uint64_t done_ = 0, found_ = 0, total_ = 0;
};

}  // namespace nibble::quant

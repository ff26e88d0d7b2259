#pragma once

#include <cstddef>
#include <memory>

#include "eval/quality/window_batch.h"

namespace nibble::eval {

/// The rows of visit_scored_logits(), asked for instead of handed over: so that two models can be compared row by row
/// while neither's logits are kept.
///
/// The forward pass runs on a thread of its own that only ever works while the caller waits in the constructor or in
/// next(): the two take turns. Memory: the chunk of logits that the model makes at a time (at most 32 MB).
class LogitStream {
 public:
  /// Has the logits of `batch` made, whose first target is target `first` of the text, and returns when the first ones
  /// are there. All arguments must outlive the stream.
  LogitStream(const LogitMaker& make, const WindowBatch& batch, std::size_t first);
  /// Rows that were not asked for are never made.
  ~LogitStream();
  LogitStream(const LogitStream&) = delete;
  LogitStream& operator=(const LogitStream&) = delete;

  /// The next rows, at least one and at most `most` > 0; valid until the next call. No rows at the end. Rethrows what
  /// the forward pass threw.
  MatrixView<const float> next(std::size_t most);

 private:
  struct Exchange;
  std::unique_ptr<Exchange> exchange_;
};

}  // namespace nibble::eval

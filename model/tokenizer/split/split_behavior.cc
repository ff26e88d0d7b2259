#include "model/tokenizer/split/split_behavior.h"

namespace nibble::model {

void SplitBehavior::flush() {
  if (waits_ && begin_ < end_) on_word_(begin_, end_);
  waits_ = false;
}

void SplitBehavior::start(std::size_t begin, std::size_t end) {
  flush();
  waits_ = true;
  begin_ = begin;
  end_ = end;
}

// Hugging Face merges a match with the word before it unless that is a match too (kMergedWithPrevious), or, going
// backwards, with the word after it (kMergedWithNext): of several matches in a row only one joins.
void SplitBehavior::add(std::size_t begin, std::size_t end, bool is_match) {
  is_match = is_match != invert_;
  switch (behavior_) {
    case SplitStep::Behavior::kIsolated:
      start(begin, end);
      break;
    case SplitStep::Behavior::kRemoved:
      if (!is_match) start(begin, end);
      break;
    case SplitStep::Behavior::kMergedWithPrevious:
      if (is_match && !previous_match_ && waits_) {
        end_ = end;
      } else {
        start(begin, end);
      }
      break;
    case SplitStep::Behavior::kMergedWithNext:
      if (!is_match && previous_match_ && waits_) {
        end_ = end;
      } else {
        start(begin, end);
      }
      break;
    case SplitStep::Behavior::kContiguous:
      if (is_match == previous_match_ && waits_) {
        end_ = end;
      } else {
        start(begin, end);
      }
      break;
  }
  previous_match_ = is_match;
}

}  // namespace nibble::model

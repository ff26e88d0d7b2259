#pragma once

#include <cstddef>
#include <functional>

#include "model/tokenizer/steps.h"

namespace nibble::model {

/// Makes words of matches and of what lies between them, given in order.
class SplitBehavior {
 public:
  using OnWord = std::function<void(std::size_t begin, std::size_t end)>;

  SplitBehavior(SplitStep::Behavior behavior, bool invert, const OnWord& on_word)
      : behavior_(behavior), invert_(invert), on_word_(on_word) {}

  /// A match or a gap, perhaps an empty match, which begins where the last one ended.
  void add(std::size_t begin, std::size_t end, bool is_match);
  void finish() { flush(); }

 private:
  void start(std::size_t begin, std::size_t end);
  void flush();

  SplitStep::Behavior behavior_;
  bool invert_;
  const OnWord& on_word_;
  bool waits_ = false;  // a word that may still grow
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool previous_match_ = false;
};

}  // namespace nibble::model

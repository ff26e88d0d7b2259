#include "model/tokenizer/pre_tokenizer.h"

#include "core/error.h"
#include "model/tokenizer/gpt2_pattern.h"
#include "model/tokenizer/normalizer.h"
#include "model/tokenizer/regex.h"
#include "model/tokenizer/utf8.h"

namespace nibble::model {

class PreTokenizer::Stage {
 public:
  virtual ~Stage() = default;
  virtual void split(std::string_view text, bool starts_text, const WordSink& on_word) const = 0;
};

namespace {

using MatchSink = std::function<void(std::size_t begin, std::size_t end)>;
using Matcher = std::function<void(std::string_view text, const MatchSink& on_match)>;

/// GPT-2's own pattern, wherever it comes from, is matched by hand-written code: same words, several times faster.
Matcher make_matcher(const SplitStep& step, const std::string& where) {
  if (!step.literal && step.pattern == kGpt2Pattern) return for_each_gpt2_match;
  const auto syntax = step.literal ? Regex::Syntax::kLiteral : Regex::Syntax::kRegex;
  return [regex = Regex(step.pattern, syntax, where)](std::string_view text, const MatchSink& on_match) {
    regex.for_each_match(text, on_match);
  };
}

class SplitStage : public PreTokenizer::Stage {
 public:
  SplitStage(const SplitStep& step, const std::string& where)
      : matcher_(make_matcher(step, where)), behavior_(step.behavior), invert_(step.invert) {}

  void split(std::string_view text, bool /*starts_text*/, const WordSink& on_word) const override {
    const auto on_valid = [&](std::string_view stretch) { split_valid(stretch, on_word); };
    for_each_utf8_stretch(text, on_valid, on_word);
  }

 private:
  void split_valid(std::string_view text, const WordSink& on_word) const {
    const auto emit = [&](std::size_t begin, std::size_t end, bool is_match) {
      const bool removed = behavior_ == SplitStep::Behavior::kRemoved && is_match != invert_;
      if (begin < end && !removed) on_word(text.substr(begin, end - begin));
    };
    std::size_t done = 0;
    matcher_(text, [&](std::size_t begin, std::size_t end) {
      emit(done, begin, false);
      emit(begin, end, true);
      done = end;
    });
    emit(done, text.size(), false);
  }

  Matcher matcher_;
  SplitStep::Behavior behavior_;
  bool invert_;
};

class PrefixSpaceStage : public PreTokenizer::Stage {
 public:
  void split(std::string_view text, bool /*starts_text*/, const WordSink& on_word) const override {
    if (text.starts_with(' ')) {
      on_word(text);
    } else {
      on_word(std::string(1, ' ').append(text));
    }
  }
};

class MetaspaceStage : public PreTokenizer::Stage {
 public:
  explicit MetaspaceStage(const MetaspaceStep& step) : step_(step) {}

  void split(std::string_view text, bool starts_text, const WordSink& on_word) const override {
    std::string spelled = ReplaceStep{" ", step_.replacement}.apply(text);
    const bool prepends = step_.prepend == MetaspaceStep::Prepend::kAlways ||
                          (step_.prepend == MetaspaceStep::Prepend::kFirst && starts_text);
    if (prepends && !spelled.starts_with(step_.replacement)) spelled.insert(0, step_.replacement);
    if (step_.split) {
      split_before_spaces(spelled, on_word);
    } else {
      on_word(spelled);
    }
  }

 private:
  void split_before_spaces(std::string_view text, const WordSink& on_word) const {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(step_.replacement, 1), text.size());
      on_word(text.substr(0, end));
      text.remove_prefix(end);
    }
  }

  MetaspaceStep step_;
};

}  // namespace

PreTokenizer::PreTokenizer(const std::vector<PreTokenizerStep>& steps, const std::string& where) {
  for (const PreTokenizerStep& step : steps) {
    NIBBLE_REQUIRE(!byte_level_, FormatError, "{}: a pre-tokenizer after ByteLevel is not supported", where);
    if (const auto* split = std::get_if<SplitStep>(&step)) {
      stages_.push_back(std::make_unique<SplitStage>(*split, where));
    } else if (const auto* metaspace = std::get_if<MetaspaceStep>(&step)) {
      stages_.push_back(std::make_unique<MetaspaceStage>(*metaspace));
    } else {
      const auto& byte_level = std::get<ByteLevelStep>(step);
      if (byte_level.add_prefix_space) stages_.push_back(std::make_unique<PrefixSpaceStage>());
      if (byte_level.use_regex) {
        stages_.push_back(std::make_unique<SplitStage>(SplitStep{.pattern = std::string(kGpt2Pattern)}, where));
      }
      byte_level_ = true;
    }
  }
}

PreTokenizer::~PreTokenizer() = default;

void PreTokenizer::split(std::string_view text, bool starts_text, const WordSink& on_word) const {
  if (!text.empty()) run(0, text, starts_text, on_word);
}

void PreTokenizer::run(std::size_t stage, std::string_view text, bool starts_text, const WordSink& on_word) const {
  if (stage == stages_.size()) {
    on_word(text);
  } else if (stage + 1 == stages_.size()) {
    stages_[stage]->split(text, starts_text, on_word);
  } else {
    bool starts = starts_text;
    stages_[stage]->split(text, starts_text, [&](std::string_view word) {
      run(stage + 1, word, starts, on_word);
      starts = false;
    });
  }
}

}  // namespace nibble::model

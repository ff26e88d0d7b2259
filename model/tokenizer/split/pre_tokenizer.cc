#include "model/tokenizer/split/pre_tokenizer.h"

#include "model/tokenizer/split/gpt2_pattern.h"
#include "model/tokenizer/split/matcher.h"
#include "model/tokenizer/split/split_behavior.h"
#include "model/tokenizer/utf8.h"
#include "model/tokenizer/words/byte_alphabet.h"

namespace nibble::model {

class PreTokenizer::Stage {
 public:
  virtual ~Stage() = default;
  virtual void split(std::string_view text, bool starts_text, const WordSink& on_word) const = 0;
  virtual bool keeps_start(std::string_view /*text*/, std::string_view /*first_word*/) const { return true; }
};

namespace {

class SplitStage : public PreTokenizer::Stage {
 public:
  SplitStage(const SplitStep& step, const std::string& where)
      : matcher_(make_matcher(step.pattern, step.literal, where)), behavior_(step.behavior), invert_(step.invert) {}

  void split(std::string_view text, bool /*starts_text*/, const WordSink& on_word) const override {
    const auto on_valid = [&](std::string_view stretch) { split_valid(stretch, on_word); };
    for_each_utf8_stretch(text, on_valid, on_word);
  }

  /// Words are stretches of the text.
  bool keeps_start(std::string_view text, std::string_view first_word) const override {
    return first_word.data() == text.data();
  }

 private:
  void split_valid(std::string_view text, const WordSink& on_word) const {
    if (behavior_ == SplitStep::Behavior::kIsolated) {
      split_isolated(text, on_word);
    } else {
      split_merging(text, on_word);
    }
  }

  /// The usual case, without a detour: matches and gaps are words, inverted or not.
  void split_isolated(std::string_view text, const WordSink& on_word) const {
    struct {
      std::string_view text;
      const WordSink& on_word;
      std::size_t done = 0;

      void emit(std::size_t begin, std::size_t end) const {
        if (begin < end) on_word(text.substr(begin, end - begin));
      }
    } frame{text, on_word};
    matcher_(text, [&frame](std::size_t begin, std::size_t end) {
      frame.emit(frame.done, begin);
      frame.emit(begin, end);
      frame.done = end;
    });
    frame.emit(frame.done, text.size());
  }

  void split_merging(std::string_view text, const WordSink& on_word) const {
    const SplitBehavior::OnWord emit = [&](std::size_t begin, std::size_t end) {
      on_word(text.substr(begin, end - begin));
    };
    SplitBehavior words(behavior_, invert_, emit);
    std::size_t done = 0;
    matcher_(text, [&](std::size_t begin, std::size_t end) {
      if (done < begin) words.add(done, begin, false);
      words.add(begin, end, true);
      done = end;
    });
    if (done < text.size()) words.add(done, text.size(), false);
    words.finish();
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

class SpellBytesStage : public PreTokenizer::Stage {
 public:
  void split(std::string_view text, bool /*starts_text*/, const WordSink& on_word) const override {
    on_word(spell_bytes(text));
  }
};

class MetaspaceStage : public PreTokenizer::Stage {
 public:
  explicit MetaspaceStage(const MetaspaceStep& step) : step_(step) {}

  void split(std::string_view text, bool starts_text, const WordSink& on_word) const override {
    std::string spelled;
    spelled.reserve(text.size() + text.size() / 2 + step_.replacement.size());
    const bool prepends = step_.prepend == MetaspaceStep::Prepend::kAlways ||
                          (step_.prepend == MetaspaceStep::Prepend::kFirst && starts_text);
    if (prepends && !text.starts_with(' ') && !text.starts_with(step_.replacement)) spelled += step_.replacement;
    for (const char c : text) {
      if (c == ' ') {
        spelled += step_.replacement;
      } else {
        spelled += c;
      }
    }
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

PreTokenizer::PreTokenizer(const std::vector<PreTokenizerStep>& steps, const std::string& where, LastByteLevel last) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (const auto* split = std::get_if<SplitStep>(&steps[i])) {
      stages_.push_back(std::make_unique<SplitStage>(*split, where));
    } else if (const auto* metaspace = std::get_if<MetaspaceStep>(&steps[i])) {
      stages_.push_back(std::make_unique<MetaspaceStage>(*metaspace));
    } else {
      const auto& byte_level = std::get<ByteLevelStep>(steps[i]);
      if (byte_level.add_prefix_space) stages_.push_back(std::make_unique<PrefixSpaceStage>());
      if (byte_level.use_regex) {
        stages_.push_back(std::make_unique<SplitStage>(SplitStep{.pattern = std::string(kGpt2Pattern)}, where));
      }
      byte_level_ = i + 1 == steps.size() && last == LastByteLevel::kLeftAsBytes;
      if (!byte_level_) stages_.push_back(std::make_unique<SpellBytesStage>());
    }
  }
}

PreTokenizer::~PreTokenizer() = default;

void PreTokenizer::run_stage(std::size_t stage, std::string_view text, bool starts_text,
                             const WordSink& on_word) const {
  stages_[stage]->split(text, starts_text, on_word);
}

bool PreTokenizer::keeps_start(std::size_t stage, std::string_view text, std::string_view word) const {
  return stages_[stage]->keeps_start(text, word);
}

void PreTokenizer::split(std::string_view text, bool starts_text, const WordSink& on_word) const {
  if (!text.empty()) run_from(0, text, starts_text, on_word);
}

void PreTokenizer::run_from(std::size_t stage, std::string_view text, bool starts_text, const WordSink& on_word) const {
  if (stage == stages_.size()) {
    on_word(text);
    return;
  }
  bool starts = starts_text;
  run_stage(stage, text, starts_text, [&](std::string_view word) {
    run_from(stage + 1, word, starts && keeps_start(stage, text, word), on_word);
    starts = false;
  });
}

}  // namespace nibble::model

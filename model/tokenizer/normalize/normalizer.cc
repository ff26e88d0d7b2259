#include "model/tokenizer/normalize/normalizer.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "core/error.h"
#include "model/tokenizer/normalize/sentencepiece_text.h"
#include "model/tokenizer/normalize/unicode_form.h"
#include "model/tokenizer/split/char_class.h"
#include "model/tokenizer/split/matcher.h"
#include "model/tokenizer/utf8.h"

namespace nibble::model {
namespace {

bool is_space(std::string_view text, std::size_t pos) {
  return decode_utf8(text, pos).length > 0 && classify(text, pos).char_class == CharClass::kSpace;
}

std::string_view strip_space(std::string_view text, const StripSpaceStep& step) {
  while (step.left && !text.empty() && is_space(text, 0)) text.remove_prefix(decode_utf8(text, 0).length);
  while (step.right && !text.empty()) {
    const std::size_t last = previous_character(text, text.size());
    if (!is_space(text, last)) break;
    text = text.substr(0, last);
  }
  return text;
}

struct MakeFunction {
  const std::string& where;

  TextFunction operator()(const PrependStep& step) const {
    return [prefix = step.text](std::string_view text) { return text.empty() ? "" : prefix + std::string(text); };
  }
  TextFunction operator()(const ReplaceStep& step) const { return make_replace(step, where); }
  TextFunction operator()(const UnicodeFormStep& step) const {
    return [form = UnicodeForm(step.form)](std::string_view text) { return form.apply(text); };
  }
  TextFunction operator()(const LowercaseStep&) const { return lowercase; }
  TextFunction operator()(const StripAccentsStep&) const { return strip_accents; }
  TextFunction operator()(const StripSpaceStep& step) const {
    return [step](std::string_view text) { return std::string(strip_space(text, step)); };
  }
  TextFunction operator()(const SentencePieceStep& step) const {
    return [text_of = std::make_shared<const SentencePieceText>(step, where)](std::string_view text) {
      return text_of->apply(text);
    };
  }
};

/// Where Hugging Face's tokenizers say that a text's first character is the one that was there before.
struct MakeKeepsStart {
  const std::string& where;
  using Predicate = std::function<bool(std::string_view text)>;

  Predicate operator()(const StripSpaceStep& step) const {
    return [left = step.left](std::string_view text) { return !left || !is_space(text, 0); };
  }
  Predicate operator()(const StripAccentsStep&) const {
    return [](std::string_view text) { return !strip_accents(text.substr(0, first_length(text))).empty(); };
  }
  /// What a match becomes stands for its last character.
  Predicate operator()(const ReplaceStep& step) const {
    const std::string pattern = step.literal ? step.pattern : "\\A(?:" + step.pattern + ")";
    return [matcher = make_matcher(pattern, step.literal, where), removes = step.to.empty()](std::string_view text) {
      std::size_t length = 0;  // of the match that the text begins with
      matcher(text.substr(0, valid_utf8_prefix(text)), [&](std::size_t begin, std::size_t end) {
        if (begin == 0) length = end;
      });
      return removes ? length == 0 : length <= first_length(text);
    };
  }
  template <class Step>
  Predicate operator()(const Step&) const {
    return [](std::string_view) { return true; };
  }

 private:
  static std::size_t first_length(std::string_view text) {
    return std::max(decode_utf8(text, 0).length, std::size_t{1});
  }
};

std::string replace_literal(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  result.reserve(text.size() + text.size() / 2);
  std::size_t copied = 0;
  for (std::size_t at = text.find(from); at != std::string_view::npos; at = text.find(from, copied)) {
    result.append(text.substr(copied, at - copied)).append(to);
    copied = at + from.size();
  }
  return result.append(text.substr(copied));
}

}  // namespace

TextFunction make_replace(const ReplaceStep& step, const std::string& where) {
  if (step.literal) {
    return [from = step.pattern, to = step.to](std::string_view text) { return replace_literal(text, from, to); };
  }
  return [matcher = make_matcher(step.pattern, false, where), to = step.to](std::string_view text) {
    std::string result;
    result.reserve(text.size());
    const auto on_valid = [&](std::string_view stretch) {
      std::size_t copied = 0;
      matcher(stretch, [&](std::size_t begin, std::size_t end) {
        result.append(stretch.substr(copied, begin - copied)).append(to);
        copied = end;
      });
      result.append(stretch.substr(copied));
    };
    for_each_utf8_stretch(text, on_valid, [&](std::string_view bytes) { result.append(bytes); });
    return result;
  };
}

void require_bounded_growth(std::size_t from, std::size_t to, std::string_view where) {
  NIBBLE_REQUIRE(to <= 64 * from + 4096, FormatError, "{} makes {} bytes of text out of {}", where, to, from);
}

Normalizer::Normalizer(const std::vector<NormalizerStep>& steps, const std::string& where) {
  for (const NormalizerStep& step : steps)
    steps_.push_back({std::visit(MakeFunction{where}, step), std::visit(MakeKeepsStart{where}, step)});
}

std::string Normalizer::apply(std::string_view text) const {
  bool starts_text = false;
  return apply(text, starts_text);
}

std::string Normalizer::apply(std::string_view text, bool& starts_text) const {
  std::string result(text);
  for (const Step& step : steps_) {
    starts_text = starts_text && !result.empty() && step.keeps_start(result);
    result = step.apply(result);
    require_bounded_growth(text.size(), result.size(), "the tokenizer's normalizer");
  }
  return result;
}

}  // namespace nibble::model

#include "model/tokenizer/normalizer.h"

#include "core/error.h"

namespace nibble::model {

std::string ReplaceStep::apply(std::string_view text) const {
  std::string result;
  result.reserve(text.size());
  std::size_t copied = 0;
  for (std::size_t at = text.find(from); at != std::string_view::npos; at = text.find(from, copied)) {
    result.append(text.substr(copied, at - copied)).append(to);
    copied = at + from.size();
  }
  return result.append(text.substr(copied));
}

void require_bounded_growth(std::size_t from, std::size_t to, std::string_view where) {
  NIBBLE_REQUIRE(to <= 64 * from + 4096, FormatError, "{} makes {} bytes of text out of {}", where, to, from);
}

std::string Normalizer::apply(std::string_view text) const {
  std::string result(text);
  for (const NormalizerStep& step : steps_) {
    if (const auto* replace = std::get_if<ReplaceStep>(&step)) {
      result = replace->apply(result);
    } else if (!result.empty()) {
      result.insert(0, std::get<PrependStep>(step).text);
    }
    require_bounded_growth(text.size(), result.size(), "the tokenizer's normalizer");
  }
  return result;
}

}  // namespace nibble::model

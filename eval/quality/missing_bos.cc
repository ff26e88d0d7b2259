#include "eval/quality/missing_bos.h"

#include <fmt/format.h>

namespace nibble::eval {

std::optional<std::string> warning_of_missing_bos(const PerplexityOptions& options, const model::Tokenizer* tokenizer,
                                                  double perplexity) {
  constexpr double kHigh = 500.0;  // of text that a model can read at all, small ones have less
  if (options.bos || tokenizer == nullptr || !tokenizer->added_bos() || !(perplexity > kHigh)) return std::nullopt;
  return fmt::format(
      "a perplexity of {:.0f} is very high, and these windows lack the BOS that the tokenizer puts before texts, which "
      "some models (Gemma) cannot do without: ask for it (--bos, bos: true, bos=True), when calibrating too",
      perplexity);
}

}  // namespace nibble::eval

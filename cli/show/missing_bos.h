#pragma once

#include <optional>
#include <string>

#include "eval/quality/perplexity_options.h"
#include "model/tokenizer/tokenizer.h"

namespace nibble::cli {

/// What to say of a perplexity so high that the model may miss the BOS that its tokenizer (which may be null) puts
/// before texts and these windows lack: Gemma's models predict next to nothing without.
std::optional<std::string> warning_of_missing_bos(const eval::PerplexityOptions& options,
                                                  const model::Tokenizer* tokenizer, double perplexity);

}  // namespace nibble::cli

#pragma once

#include <optional>
#include <string>

#include "eval/quality/perplexity_options.h"
#include "model/tokenizer/tokenizer.h"

namespace nibble::eval {

/// What to say of a float model's perplexity so high that it may miss the BOS that its tokenizer (which may be null)
/// puts before texts and these windows lack: Gemma's models predict next to nothing without. Of a model that is
/// compared with a reference, that one's is the perplexity to give.
std::optional<std::string> warning_of_missing_bos(const PerplexityOptions& options, const model::Tokenizer* tokenizer,
                                                  double perplexity);

}  // namespace nibble::eval

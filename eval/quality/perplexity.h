#pragma once

#include <span>

#include "eval/quality/perplexity_options.h"
#include "eval/quality/window_batch.h"
#include "model/transformer/transformer.h"

namespace nibble::eval {

/// Perplexity of `model` on a token sequence. NLLs are computed in double from f32 logits. The number of threads
/// does not change a bit; batch_tokens may, by the rounding of float sums (core/matrix/gemm.h). Throws InvalidArgument
/// as evaluation_windows() does.
PerplexityResult perplexity(const model::Model& model, std::span<const TokenId> tokens,
                            const PerplexityOptions& options);

/// The same of logits that `make` makes, as a model of this configuration would.
PerplexityResult perplexity(const model::Architecture& architecture, const LogitMaker& make,
                            std::span<const TokenId> tokens, const PerplexityOptions& options);

/// -ln softmax(logits)[target] in double, by the usual shift with the maximum; NaN logits give NaN.
double negative_log_likelihood(std::span<const float> logits, TokenId target);

}  // namespace nibble::eval

#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "datasets/eval_windows.h"
#include "model/transformer/transformer.h"

namespace nibble::eval {

/// Some windows of a text, laid out for one forward pass that makes only the logits that are scored.
struct WindowBatch {
  std::vector<TokenId> tokens;          ///< the windows' tokens, one window after the other
  std::vector<std::size_t> starts;      ///< where each begins; windows + 1 entries
  std::vector<std::size_t> logit_rows;  ///< ascending: the rows of `tokens` whose logits predict a target
  std::vector<TokenId> targets;         ///< what row logit_rows[i] has to predict
};

/// Cuts `windows` into runs of neighbours of at most `batch_tokens` tokens together, at least one window each.
std::vector<std::span<const datasets::Window>> group_windows(std::span<const datasets::Window> windows,
                                                             std::size_t batch_tokens);

/// `windows` of `text` as a batch; with `bos`, it takes the place of each window's first token.
WindowBatch make_window_batch(std::span<const TokenId> text, std::span<const datasets::Window> windows,
                              std::optional<TokenId> bos);

/// Receives logits (rows, vocabulary) of the batch's targets [first, first + rows): in ascending order, in chunks, on
/// the caller's thread. Perplexity reads them once; a divergence compares the rows of two models.
using ScoredLogits = std::function<void(std::size_t first, MatrixView<const float> logits)>;

/// Makes the logits of all targets of a batch, the first of which is target `first` of the whole text, and hands them
/// on.
using LogitMaker = std::function<void(const WindowBatch& batch, std::size_t first, const ScoredLogits& visit)>;
/// By running `model`, which must outlive it.
LogitMaker logits_of(const model::Model& model, const model::ForwardOptions& options);

/// Runs `model` over the batch and hands on the logits of all its targets.
void visit_scored_logits(const model::Model& model, const WindowBatch& batch, const model::ForwardOptions& options,
                         const ScoredLogits& visit);

}  // namespace nibble::eval

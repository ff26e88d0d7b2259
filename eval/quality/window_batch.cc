#include "eval/quality/window_batch.h"

namespace nibble::eval {

std::vector<std::span<const datasets::Window>> group_windows(std::span<const datasets::Window> windows,
                                                             std::size_t batch_tokens) {
  std::vector<std::span<const datasets::Window>> groups;
  for (std::size_t begin = 0; begin < windows.size();) {
    std::size_t end = begin, tokens = 0;
    do {
      tokens += windows[end].end - windows[end].begin;
      ++end;
    } while (end < windows.size() && tokens + (windows[end].end - windows[end].begin) <= batch_tokens);
    groups.push_back(windows.subspan(begin, end - begin));
    begin = end;
  }
  return groups;
}

WindowBatch make_window_batch(std::span<const TokenId> text, std::span<const datasets::Window> windows,
                              std::optional<TokenId> bos) {
  WindowBatch batch;
  batch.starts.push_back(0);
  for (const datasets::Window& window : windows) {
    const std::size_t start = batch.tokens.size();
    const auto tokens = text.subspan(window.begin, window.end - window.begin);
    batch.tokens.insert(batch.tokens.end(), tokens.begin(), tokens.end());
    if (bos) batch.tokens[start] = *bos;
    for (std::size_t target = window.first_target; target < window.last_target; ++target) {
      batch.logit_rows.push_back(start + (target - 1 - window.begin));
      batch.targets.push_back(text[target]);
    }
    batch.starts.push_back(batch.tokens.size());
  }
  return batch;
}

void visit_scored_logits(const model::Model& model, const WindowBatch& batch, const model::ForwardOptions& options,
                         const ScoredLogits& visit) {
  std::size_t first = 0;
  const auto sink = [&](std::span<const std::size_t> rows, MatrixView<const float> logits) {
    visit(first, logits);
    first += rows.size();
  };
  model.forward({batch.tokens, batch.starts}, batch.logit_rows, sink, options);
}

LogitMaker logits_of(const model::Model& model, const model::ForwardOptions& options) {
  return [&model, options](const WindowBatch& batch, std::size_t, const ScoredLogits& visit) {
    visit_scored_logits(model, batch, options, visit);
  };
}

}  // namespace nibble::eval

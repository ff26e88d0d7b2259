#include "calib/collect/head_pass.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "calib/collect/accumulate.h"
#include "core/error.h"
#include "core/random.h"
#include "model/transformer/sampling.h"

namespace nibble::calib {

HeadPass::HeadPass(const model::Model& model, const RunSettings& settings, BlockSums& sums)
    : model_(model), settings_(settings), sums_(sums) {}

void HeadPass::run(std::size_t first_window, const model::Batch& batch, MatrixView<const float> x,
                   MatrixView<float> dx) {
  const std::size_t length = settings_.window_tokens, rows = x.rows();
  if (const std::optional<Position> bad = find_not_finite(x)) {
    throw NumericalError(fmt::format(
        "calibration: activations leaving the last block hold {} in window {}, position {}, channel {}",
        static_cast<double>(x(bad->row, bad->col)), first_window + bad->row / length, bad->row % length, bad->col));
  }
  std::vector<std::int64_t> targets = targets_of(first_window, batch);
  const bool mean = settings_.flavour == FisherFlavour::kSequence;
  std::vector<float> weights(rows, mean ? 1.0f / static_cast<float>(length - 1) : 1.0f), losses(rows);
  if (!settings_.head) {
    model_.backward_head(x, targets, weights, losses, dx, nullptr);
  } else {
    for (std::size_t w = 0; w < rows / length; ++w) {
      const std::size_t begin = w * length;
      run_with_sums(first_window + w, x.rows_slice(begin, length), std::span(targets).subspan(begin, length),
                    std::span(weights).subspan(begin, length), std::span(losses).subspan(begin, length),
                    dx.rows_slice(begin, length));
    }
  }
  for (std::size_t r = 0; r < rows; ++r) {
    NIBBLE_REQUIRE(std::isfinite(losses[r]), NumericalError, "calibration: the loss of window {} at position {} is {}",
                   first_window + r / length, r % length, static_cast<double>(losses[r]));
  }
}

// The head's gradient comes in chunks of rows; a window's must be whole before it is squared.
void HeadPass::run_with_sums(std::size_t window, MatrixView<const float> x, std::span<std::int64_t> targets,
                             std::span<const float> weights, std::span<float> losses, MatrixView<float> dx) {
  const std::size_t length = x.rows(), vocabulary = model_.architecture().vocabulary;
  if (inputs_.rows() == 0) {
    inputs_ = Matrix<float>(length, x.cols());
    gradients_ = Matrix<float>(length, vocabulary);
  }
  // The last position has no next token, but its input counts: it gets any target, of weight 0.
  std::vector<float> row_weights(weights.begin(), weights.end());
  targets[length - 1] = 0;
  row_weights[length - 1] = 0.0f;
  std::size_t filled = 0;
  std::string module;
  model::Hooks<float> gather;
  gather.on_linear_gradient = [&](const std::string& name, MatrixView<const float> inputs,
                                  MatrixView<const float> gradients, const model::HookRows&) {
    module = name;
    for (std::size_t r = 0; r < inputs.rows(); ++r, ++filled) {
      std::copy_n(inputs.row(r).data(), inputs.cols(), inputs_.row(filled).data());
      std::copy_n(gradients.row(r).data(), vocabulary, gradients_.row(filled).data());
    }
  };
  model_.backward_head(x, targets, row_weights, losses, dx, &gather);
  losses[length - 1] = 0.0f;
  sums_.begin_batch(window, 1);
  sums_.backward_hooks().on_linear_gradient(module, inputs_, gradients_, {});
}

std::vector<std::int64_t> HeadPass::targets_of(std::size_t first_window, const model::Batch& batch) const {
  if (settings_.labels == Labels::kSampled) return sampled(first_window, batch);
  const std::size_t length = settings_.window_tokens;
  std::vector<std::int64_t> targets(batch.tokens.size(), -1);
  for (std::size_t r = 0; r < targets.size(); ++r)
    if ((r + 1) % length != 0) targets[r] = batch.tokens[r + 1];
  return targets;
}

// One draw per position from one stream of random numbers, entered at the position's place in the whole run, so that
// labels do not depend on batches or processes. SplitMix64's state advances by a constant, which makes that cheap.
std::vector<std::int64_t> HeadPass::sampled(std::size_t first_window, const model::Batch& batch) const {
  constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15u;
  const std::size_t length = settings_.window_tokens;
  const std::uint64_t stream = Random(settings_.seeds.at(0)).next();
  std::vector<std::size_t> rows;
  for (std::size_t r = 0; r < batch.tokens.size(); ++r)
    if ((r + 1) % length != 0) rows.push_back(r);
  std::vector<std::int64_t> targets(batch.tokens.size(), -1);
  model_.forward(batch, rows, [&](std::span<const std::size_t> chunk, MatrixView<const float> logits) {
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      Random random(stream + kStep * (first_window * length + chunk[i]));
      targets[chunk[i]] = model::sample_token(logits.row(i), {.temperature = 1.0}, random);
    }
  });
  return targets;
}

}  // namespace nibble::calib

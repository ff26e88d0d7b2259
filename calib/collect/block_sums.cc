#include "calib/collect/block_sums.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "calib/collect/accumulate.h"
#include "core/error.h"

namespace nibble::calib {
namespace {

// A follower's Hessian is its owner's, which the file links.
// The head's outputs are the vocabulary: a matrix of their pairs would outgrow everything else.
StatisticSet own_statistics(StatisticSet what, const CollectedLayer& layer) {
  if (!layer.input_of.empty()) what.hessian = false;
  if (layer.head) what.output_hessian = false;
  return what;
}

}  // namespace

std::vector<CollectedLayer> collected_layers(const model::Architecture& architecture, bool head) {
  std::vector<CollectedLayer> layers;
  for (const model::Parameter* p : model::linear_layers(architecture))
    layers.push_back({p->module, p->out, p->in, p->block, p->input_of, p->expert, false});
  const model::Parameter& last = architecture.head.linear;
  if (head) layers.push_back({last.module, last.out, last.in, last.block, {}, {}, true});
  return layers;
}

std::uint64_t BlockSums::bytes(std::span<const CollectedLayer> layers, const StatisticSet& what, Guide guide) {
  std::uint64_t elements = 0, floats = 0;
  for (const CollectedLayer& layer : layers) {
    const StatisticSet own = own_statistics(what, layer);
    const std::uint64_t square = std::uint64_t{layer.in} * layer.in;
    if (guide == Guide::kWhitened && !layer.head)
      floats += (own.guided_hessian ? std::uint64_t{layer.out} * layer.out : 0) +
                (own.output_hessian && layer.input_of.empty() ? square : 0);
    elements += 5 * layer.in + (own.fisher ? std::uint64_t{layer.out} * layer.in : 0) + (own.hessian ? square : 0) +
                (own.guided_hessian ? square : 0) + (own.output_hessian ? std::uint64_t{layer.out} * layer.out : 0);
  }
  return elements * sizeof(double) + floats * sizeof(float);
}

BlockSums::BlockSums(std::span<const CollectedLayer> layers, const StatisticSet& what, const RunSettings& settings,
                     const InputMeans& means)
    : settings_(settings), means_(means) {
  for (const CollectedLayer& layer : layers) {
    const bool follows = !layer.input_of.empty();
    index_.emplace(layer.module, entries_.size());
    entries_.push_back({LayerSums(layer.module, layer.out, layer.in, own_statistics(what, layer)), follows});
    entries_.back().sums.input_of = layer.input_of;
  }
}

void BlockSums::set_metric(std::size_t index, TokenMetric metric) { entries_.at(index).metric = std::move(metric); }

void BlockSums::begin_batch(std::size_t first_window, std::size_t windows) {
  first_window_ = first_window;
  windows_ = windows;
  for (Entry& entry : entries_) {
    entry.sums.samples += windows;
    entry.input_weights.clear();
  }
}

model::Hooks<float> BlockSums::forward_hooks() {
  model::Hooks<float> hooks;
  hooks.on_linear_input = [this](const std::string& module, MatrixView<const float> x, const model::HookRows& rows) {
    if (const auto found = index_.find(module); found != index_.end()) add_input(entries_[found->second], x, rows);
  };
  return hooks;
}

model::Hooks<float> BlockSums::backward_hooks() {
  model::Hooks<float> hooks;
  hooks.on_linear_gradient = [this](const std::string& module, MatrixView<const float> x, MatrixView<const float> dy,
                                    const model::HookRows& rows) {
    const auto found = index_.find(module);
    if (found == index_.end()) return;
    Entry& entry = entries_[found->second];
    if (entry.sums.what.activations) {
      add_input(entry, x, rows);
    } else {
      entry.sums.tokens += x.rows();
    }
    add_gradient(entry, x, dy, rows);
  };
  return hooks;
}

std::vector<std::size_t> BlockSums::windows_of(std::size_t count, const model::HookRows& rows) const {
  std::vector<std::size_t> starts(windows_ + 1, count);
  for (std::size_t w = 0, row = 0; w < windows_; ++w) {
    while (row < count && rows(row) < w * settings_.window_tokens) ++row;
    starts[w] = row;
  }
  return starts;
}

void BlockSums::add_input(Entry& entry, MatrixView<const float> x, const model::HookRows& rows) {
  entry.sums.tokens += x.rows();
  if (entry.follows) return;
  require_finite(entry.sums.module, "activations entering", x, rows);
  add_activations(x, entry.sums);
  if (entry.sums.what.hessian) add_hessian(x, windows_of(x.rows(), rows), entry.sums.sum_xxt);
}

void BlockSums::add_gradient(Entry& entry, MatrixView<const float> x, MatrixView<const float> dy,
                             const model::HookRows& rows) {
  LayerSums& sums = entry.sums;
  if (!sums.what.needs_gradients()) return;
  require_finite(sums.module, "gradients at the output of", dy, rows);
  const std::vector<std::size_t> windows = windows_of(x.rows(), rows);
  const TokenMetric& metric = entry.metric;
  if (sums.what.guided_hessian) add_guided_hessian(x, token_weights(dy, metric.gradients, windows), windows, sums);
  if (sums.what.output_hessian) add_output_hessian(dy, input_weights(entry, x, windows), windows, sums.sum_dydyt);
  if (!sums.what.fisher) return;
  if (means_.empty()) return add_fisher(settings_.flavour, x, dy, windows, sums.fisher);
  const Matrix<float> shifted = centred(x, means_.at(sums.module));
  add_fisher(settings_.flavour, shifted.view(), dy, windows, sums.fisher);
}

std::span<const double> BlockSums::input_weights(const Entry& entry, MatrixView<const float> x, Windows windows) {
  Entry& owner = entries_[index_.at(entry.follows ? entry.sums.input_of : entry.sums.module)];
  if (owner.metric.inputs.rows() != 0 && owner.input_weights.empty())
    owner.input_weights = token_weights(centred(x, owner.metric.mean), owner.metric.inputs, windows);
  return owner.input_weights;
}

void BlockSums::require_finite(const std::string& module, const char* what, MatrixView<const float> values,
                               const model::HookRows& rows) const {
  const std::optional<Position> bad = find_not_finite(values);
  if (!bad) return;
  const std::size_t row = rows(bad->row);
  throw NumericalError(fmt::format(
      "calibration: {} '{}' hold {} in window {}, position {}, channel {}; is a weight not finite, or a sum too large "
      "for float?",
      what, module, static_cast<double>(values(bad->row, bad->col)), first_window_ + row / settings_.window_tokens,
      row % settings_.window_tokens, bad->col));
}

void BlockSums::reduce(Team& team) {
  for (Entry& entry : entries_) {
    LayerSums& sums = entry.sums;
    // Counts fit a double exactly: they are below 2^53.
    double counts[] = {static_cast<double>(sums.tokens), static_cast<double>(sums.samples), sums.sum_s,
                       sums.sum_s2.value_or(0.0)};
    team.sum(counts);
    sums.tokens = static_cast<std::uint64_t>(counts[0]);
    sums.samples = static_cast<std::uint64_t>(counts[1]);
    sums.sum_s = counts[2];
    sums.sum_s2 = counts[3];
    if (entry.follows) {
      const LayerSums& owner = entries_.at(index_.at(sums.input_of)).sums;
      sums.sum_x = owner.sum_x;
      sums.sum_x2 = owner.sum_x2;
      sums.sum_abs_x = owner.sum_abs_x;
      sums.min_x = owner.min_x;
      sums.max_x = owner.max_x;
    } else {
      team.sum(sums.sum_x);
      team.sum(sums.sum_x2);
      team.sum(sums.sum_abs_x);
      team.min(sums.min_x);
      team.max(sums.max_x);
    }
    team.sum(sums.fisher.values());
    team.sum(sums.sum_xxt.values());
    team.sum(sums.sum_s_x);
    team.sum(sums.sum_s_xxt.values());
    team.sum(sums.sum_dydyt.values());
    mirror_upper(sums.sum_xxt);
    mirror_upper(sums.sum_s_xxt);
    mirror_upper(sums.sum_dydyt);
  }
}

LayerStats BlockSums::rounded(std::size_t index) const {
  LayerStats layer = entries_.at(index).sums.rounded();
  // Finite inputs can still have sums too large for a float.
  const auto values = layer.fisher.values();
  const auto bad = std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
  NIBBLE_REQUIRE(bad == values.end(), NumericalError,
                 "calibration: the squared gradients of '{}' exceed what a float holds, at element {}", layer.module,
                 bad - values.begin());
  return layer;
}

LayerStats BlockSums::take(std::size_t index) {
  LayerStats layer = rounded(index);
  entries_.at(index).sums = {};
  return layer;
}

}  // namespace nibble::calib

#include "calib/collect/block_sums.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "calib/collect/accumulate.h"
#include "core/error.h"

namespace nibble::calib {
namespace {

// q, k and v, and gate and up, are given the same matrix by the blocks of the Llama family.
std::string shared_input(const std::string& module) {
  constexpr std::pair<std::string_view, std::string_view> kShared[] = {{"self_attn.k_proj", "self_attn.q_proj"},
                                                                       {"self_attn.v_proj", "self_attn.q_proj"},
                                                                       {"mlp.up_proj", "mlp.gate_proj"}};
  for (const auto& [follower, owner] : kShared) {
    if (module.ends_with(follower)) return module.substr(0, module.size() - follower.size()).append(owner);
  }
  return {};
}

// A follower's Hessian is its owner's, which the file links.
StatisticSet own_statistics(StatisticSet what, bool follows) {
  if (follows) what.hessian = false;
  return what;
}

}  // namespace

std::vector<CollectedLayer> collected_layers(const model::Config& config, bool head) {
  std::vector<CollectedLayer> layers;
  for (const model::LinearLayer& layer : model::linear_layers(config))
    layers.push_back({layer.module, layer.out, layer.in, layer.block, shared_input(layer.module)});
  if (head) layers.push_back({"lm_head", config.vocabulary, config.hidden, config.layers, {}});
  return layers;
}

std::uint64_t BlockSums::bytes(std::span<const CollectedLayer> layers, const StatisticSet& what) {
  std::uint64_t elements = 0;
  for (const CollectedLayer& layer : layers) {
    const StatisticSet own = own_statistics(what, !layer.input_of.empty());
    const std::uint64_t square = std::uint64_t{layer.in} * layer.in;
    elements += 5 * layer.in + (own.fisher ? std::uint64_t{layer.out} * layer.in : 0) + (own.hessian ? square : 0) +
                (own.guided_hessian ? square : 0);
  }
  return elements * sizeof(double);
}

BlockSums::BlockSums(std::span<const CollectedLayer> layers, const StatisticSet& what, const RunSettings& settings,
                     const InputMeans& means)
    : settings_(settings), means_(means) {
  for (const CollectedLayer& layer : layers) {
    const bool follows = !layer.input_of.empty();
    index_.emplace(layer.module, entries_.size());
    entries_.push_back({LayerSums(layer.module, layer.out, layer.in, own_statistics(what, follows)), follows});
    entries_.back().sums.input_of = layer.input_of;
  }
}

void BlockSums::begin_batch(std::size_t first_window, std::size_t windows) {
  first_window_ = first_window;
  for (Entry& entry : entries_) {
    entry.sums.samples += windows;
    entry.sums.tokens += windows * settings_.window_tokens;
  }
}

model::Hooks<float> BlockSums::forward_hooks() {
  model::Hooks<float> hooks;
  hooks.on_linear_input = [this](const std::string& module, MatrixView<const float> x) {
    if (const auto found = index_.find(module); found != index_.end()) add_input(entries_[found->second], x);
  };
  return hooks;
}

model::Hooks<float> BlockSums::backward_hooks() {
  model::Hooks<float> hooks;
  hooks.on_linear_gradient = [this](const std::string& module, MatrixView<const float> x, MatrixView<const float> dy) {
    Entry& entry = entries_.at(index_.at(module));
    if (entry.sums.what.activations) add_input(entry, x);
    add_gradient(entry, x, dy);
  };
  return hooks;
}

void BlockSums::add_input(Entry& entry, MatrixView<const float> x) {
  if (entry.follows) return;
  require_finite(entry.sums.module, "activations entering", x);
  add_activations(x, entry.sums);
  if (entry.sums.what.hessian) add_hessian(x, settings_.window_tokens, entry.sums.sum_xxt);
}

void BlockSums::add_gradient(Entry& entry, MatrixView<const float> x, MatrixView<const float> dy) {
  LayerSums& sums = entry.sums;
  if (!sums.what.needs_gradients()) return;
  require_finite(sums.module, "gradients at the output of", dy);
  if (sums.what.guided_hessian) add_guided_hessian(x, dy, settings_.window_tokens, sums);
  if (!sums.what.fisher) return;
  if (means_.empty()) return add_fisher(settings_.flavour, x, dy, settings_.window_tokens, sums.fisher);
  const Matrix<float> shifted = centred(x, means_.at(sums.module));
  add_fisher(settings_.flavour, shifted.view(), dy, settings_.window_tokens, sums.fisher);
}

void BlockSums::require_finite(const std::string& module, const char* what, MatrixView<const float> values) const {
  const std::optional<Position> bad = find_not_finite(values);
  if (!bad) return;
  throw NumericalError(fmt::format(
      "calibration: {} '{}' hold {} in window {}, position {}, channel {}; is a weight not finite, or a sum too large "
      "for float?",
      what, module, static_cast<double>(values(bad->row, bad->col)), first_window_ + bad->row / settings_.window_tokens,
      bad->row % settings_.window_tokens, bad->col));
}

void BlockSums::reduce(Team& team) {
  for (Entry& entry : entries_) {
    LayerSums& sums = entry.sums;
    // Counts fit a double exactly: they are below 2^53.
    double counts[] = {static_cast<double>(sums.tokens), static_cast<double>(sums.samples), sums.sum_s};
    team.sum(counts);
    sums.tokens = static_cast<std::uint64_t>(counts[0]);
    sums.samples = static_cast<std::uint64_t>(counts[1]);
    sums.sum_s = counts[2];
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
    mirror_upper(sums.sum_xxt);
    mirror_upper(sums.sum_s_xxt);
  }
}

LayerStats BlockSums::take(std::size_t index) {
  LayerSums& sums = entries_.at(index).sums;
  LayerStats layer = sums.rounded();
  sums = {};
  // Finite inputs can still have sums too large for a float.
  const auto values = layer.fisher.values();
  const auto bad = std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
  NIBBLE_REQUIRE(bad == values.end(), NumericalError,
                 "calibration: the squared gradients of '{}' exceed what a float holds, at element {}", layer.module,
                 bad - values.begin());
  return layer;
}

}  // namespace nibble::calib

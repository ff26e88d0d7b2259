#include "calib/collect/boundary_walk.h"

#include <algorithm>
#include <set>
#include <utility>

#include "calib/collect/team.h"
#include "core/error.h"
#include "core/matrix/copied.h"

namespace nibble::calib {

BoundaryWalk::BoundaryWalk(std::span<const TokenId> tokens, std::size_t window_tokens, std::size_t per_batch,
                           std::string name, ResidualStore& store)
    : tokens_(tokens), per_batch_(per_batch), name_(std::move(name)), store_(store) {
  NIBBLE_REQUIRE(window_tokens > 0 && per_batch > 0 && !tokens.empty() && tokens.size() % window_tokens == 0,
                 InvalidArgument, "{} tokens are no whole number of windows of {}", tokens.size(), window_tokens);
  settings_.window_tokens = window_tokens;
  settings_.windows = tokens.size() / window_tokens;
}

std::string BoundaryWalk::boundary(std::size_t block) const { return fmt::format("{}.{:04}", name_, block); }

// Calls body(batch number, windows before it, the batch, room for its rows).
template <class Body>
void BoundaryWalk::for_batch(std::size_t hidden, std::size_t batch, const Body& body) {
  const std::size_t length = settings_.window_tokens, first = batch * per_batch_;
  const std::size_t windows = std::min<std::size_t>(per_batch_, settings_.windows - first);
  std::vector<std::size_t> starts;
  for (std::size_t w = 0; w <= windows; ++w) starts.push_back(w * length);
  const auto tokens = tokens_.subspan(first * length, windows * length);
  if (x_.rows() != tokens.size()) x_ = Matrix<float>(tokens.size(), hidden);
  body(batch, first, model::Batch{tokens, starts}, x_.view());
}

template <class Body>
void BoundaryWalk::for_batches(std::size_t hidden, const Body& body) {
  for (std::size_t batch = 0; batch < batches(); ++batch) for_batch(hidden, batch, body);
}

void BoundaryWalk::embed(const model::Model& model) {
  for_batches(model.architecture().hidden,
              [&](std::size_t batch, std::size_t, const model::Batch& input, MatrixView<float> x) {
                model.embed(input, x);
                store_.write(boundary(0), batch, x);
              });
}

std::vector<LayerStats> BoundaryWalk::run(const model::Model& model, std::size_t block,
                                          std::span<const CollectedLayer> layers, const StatisticSet& what, Go go) {
  BlockSums sums(layers, what, settings_, no_means_);
  model::Hooks<float> hooks = layers.empty() ? model::Hooks<float>{} : sums.forward_hooks();
  if (go == Go::kToInputs) {
    std::set<std::size_t> experts;
    for (const CollectedLayer& layer : layers) {
      hooks.until.push_back(layer.module);
      NIBBLE_REQUIRE(layers.size() == 1 || (layer.expert && experts.insert(*layer.expert).second), InvalidArgument,
                     "a walk to the inputs of several layers ends at one of each expert, got '{}' besides",
                     layer.module);
    }
  }
  for_batches(model.architecture().hidden,
              [&](std::size_t batch, std::size_t first, const model::Batch& input, MatrixView<float> x) {
                store_.read(boundary(block), batch, x);
                sums.begin_batch(first, input.starts.size() - 1);
                model.forward_block(block, input, x, {}, &hooks);
                if (go == Go::kOn || go == Go::kAhead) store_.write(boundary(block + 1), batch, x);
              });
  if (go == Go::kOn) store_.drop(boundary(block));
  Team alone;
  sums.reduce(alone);
  std::vector<LayerStats> statistics;
  for (std::size_t i = 0; i < layers.size(); ++i) statistics.push_back(sums.take(i));
  return statistics;
}

LayerStats BoundaryWalk::run_to(const model::Model& model, std::size_t block, const CollectedLayer& layer,
                                const StatisticSet& what, With with, const Observer& seen) {
  BlockSums sums({&layer, 1}, what, settings_, no_means_);
  const model::Hooks<float> hooks = sums.forward_hooks();
  for (std::size_t batch = 0; batch < batches(); ++batch) {
    const LayerInput input = input_of(model, block, layer.module, batch, with);
    const std::size_t first = batch * per_batch_;
    sums.begin_batch(first, input.x.rows() / settings_.window_tokens);
    hooks.on_linear_input(layer.module, input.x.view(), {});
    seen(batch, input);
  }
  Team alone;
  sums.reduce(alone);
  return sums.take(0);
}

LayerInput BoundaryWalk::input_of(const model::Model& model, std::size_t block, const std::string& module,
                                  std::size_t batch, With with) {
  LayerInput input;
  model::Hooks<float> hooks;
  hooks.until = {module};
  hooks.on_linear_input = [&](const std::string& name, MatrixView<const float> x, const model::HookRows& rows) {
    if (name != module) return;
    NIBBLE_REQUIRE(rows.indices.empty(), InvalidArgument, "'{}' is given some rows of a batch only", module);
    input.x = copied(x);
  };
  for_batch(model.architecture().hidden, batch,
            [&](std::size_t, std::size_t, const model::Batch& tokens, MatrixView<float> x) {
              store_.read(boundary(block), batch, x);
              model.forward_block(block, tokens, x, {}, &hooks);
              if (with == With::kStream) input.stream = copied(x);
            });
  NIBBLE_REQUIRE(input.x.size() > 0, InvalidArgument, "block {} has no layer '{}'", block, module);
  return input;
}

}  // namespace nibble::calib

#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "calib/collect/block_sums.h"
#include "calib/collect/layer_input.h"
#include "calib/collect/residual_store.h"
#include "calib/stats/run_settings.h"
#include "model/transformer/transformer.h"

namespace nibble::calib {

/// Token windows on their way through a network whose blocks may change while they wait in front of them: the residual
/// stream at one boundary after the other, kept in a store under `name`.
class BoundaryWalk {
 public:
  /// `tokens`: windows of `window_tokens`, `per_batch` of which go through a block together. `store` has the shape of
  /// all of them, in batches of that size. Both must outlive this.
  BoundaryWalk(std::span<const TokenId> tokens, std::size_t window_tokens, std::size_t per_batch, std::string name,
               ResidualStore& store);

  /// The stream in front of `block` is there, perhaps left by a run that was killed.
  bool holds(std::size_t block) { return store_.holds(boundary(block)); }
  void embed(const model::Model& model);

  enum class Go { kToInputs, kStay, kAhead, kOn };
  /// Runs `block` over the stream in front of it and sums `what` of the inputs of `layers`, some of the block's. kOn:
  /// what leaves the block becomes the stream in front of the next one, and replaces this one. kAhead: the same, and
  /// this one stays until leave(), so that a run that is killed meanwhile finds it. kToInputs: the block is computed no
  /// further than to the input of the one layer, or of several of as many experts (Hooks::until). Throws NumericalError
  /// for NaN and infinity.
  std::vector<LayerStats> run(const model::Model& model, std::size_t block, std::span<const CollectedLayer> layers,
                              const StatisticSet& what, Go go);
  void leave(std::size_t block) { store_.drop(boundary(block)); }
  /// The input of one layer of `block`, no expert's, whose rows are other tokens from model to model, for one batch of
  /// the stream in front of the block, which is computed no further.
  enum class With { kInput, kStream };
  LayerInput input_of(const model::Model& model, std::size_t block, const std::string& module, std::size_t batch,
                      With with);
  /// Sums `what` of it over all batches, and calls seen(batch, input) after each.
  using Observer = std::function<void(std::size_t batch, const LayerInput& input)>;
  LayerStats run_to(const model::Model& model, std::size_t block, const CollectedLayer& layer, const StatisticSet& what,
                    With with, const Observer& seen);
  std::size_t batches() const { return (settings_.windows + per_batch_ - 1) / per_batch_; }

 private:
  template <class Body>
  void for_batch(std::size_t hidden, std::size_t batch, const Body& body);
  template <class Body>
  void for_batches(std::size_t hidden, const Body& body);
  std::string boundary(std::size_t block) const;

  std::span<const TokenId> tokens_;
  std::size_t per_batch_;
  std::string name_;
  ResidualStore& store_;
  RunSettings settings_;
  InputMeans no_means_;
  Matrix<float> x_;
};

}  // namespace nibble::calib

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "calib/collect/boundary_walk.h"
#include "core/matrix/linear_op.h"
#include "model/architecture/architecture.h"
#include "quant/algo/solve/hessian.h"

namespace nibble::quant {

/// A network and its residual stream in front of some block.
struct WalkedModel {
  const model::Model& model;
  calib::BoundaryWalk& walk;
};

/// How the inputs X~ (tokens, in) of a layer, those it gets in the network quantized so far, have drifted from the
/// float model's X on the same tokens, and, for a layer whose outputs are added to the residual stream, how that stream
/// R~ (tokens, hidden) has drifted from R when they are.
struct LayerDrift {
  Matrix<float> inputs;             ///< (in, in):     (X - X~)ᵀ X~ / tokens
  Matrix<float> stream;             ///< (hidden, in): (R - R~)ᵀ X~ / (m tokens), m = residual_multiplier; or empty
  std::vector<double> stream_mean;  ///< (hidden):     the mean of (R - R~) / m; or empty

  /// Both about the means of the inputs, mu in the float model (`then`) and mu~ in the other (`now`), and of the
  /// streams.
  void centre(std::span<const double> then, std::span<const double> now);
  /// Of x/s, for a weight W · diag(s).
  void divide_inputs(const std::vector<float>& s);
  std::uint64_t bytes() const { return (inputs.size() + stream.size()) * sizeof(float); }
};

/// Whether outputs of `layer` are added to the residual stream, times a multiplier that is not 0: of the attention's
/// output and of the last layer of an MLP, without a norm behind it, that is no mixture's.
bool is_added_to_stream(const model::BlockSpec& block, const model::Parameter& layer);

/// The drift of `layer` of `block`, not an expert. Both walks stand in front of the block. Sums in float.
/// Cost: one pass of each model as far as to the layer's input, and in² multiply-adds a token, in · hidden more for the
/// stream. Threads: all.
[[nodiscard]] LayerDrift measure_drift(const WalkedModel& original, const WalkedModel& quantized, std::size_t block,
                                       const model::Parameter& layer);

/// (out): by how much the mean outputs of `w` on the float model's inputs are above those of `target` on drifted ones,
/// mu Wᵀ - mu~ Tᵀ, in double.
[[nodiscard]] std::vector<double> output_drift(const WeightSource& w, std::span<const double> then,
                                               const WeightSource& target, std::span<const double> now);

/// The weight that makes up for drifted inputs,
///
///   W + share · (W D + S) (H + Λ)⁻¹,        D, S = drift.inputs, drift.stream,   H = X~ᵀ X~ / tokens,
///
/// Λ the damping of `options`: at share = 1 and without damping, X~ times its transpose is as near to X Wᵀ, and the
/// stream that it is added to then as near to the float model's, as any weight brings it, in the mean square over the
/// tokens. Without S the asymmetric target of GPTAQ (arXiv:2504.02692) and Qronos (arXiv:2505.11695). Without drift, W
/// itself, to the bit. `hessian` (in, in), 0 ≤ share ≤ 1. Products in float. Cost: in³/3 + 3 · out · in² multiply-adds.
/// Memory: 8 bytes an entry of H, 12 a weight. Throws as factor_hessian().
[[nodiscard]] Matrix<float> drift_corrected(const WeightSource& w, const LayerDrift& drift,
                                            MatrixView<const float> hessian, const FactorOptions& options,
                                            double share);

}  // namespace nibble::quant

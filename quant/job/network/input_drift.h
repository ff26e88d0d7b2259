#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "calib/collect/boundary_walk.h"
#include "core/matrix/linear_op.h"
#include "quant/algo/solve/hessian.h"

namespace nibble::quant {

/// A network and its residual stream in front of some block.
struct WalkedModel {
  const model::Model& model;
  calib::BoundaryWalk& walk;
};

/// How the inputs X~ of a layer, those it gets in the network quantized so far, have drifted from the float model's X
/// (tokens, in) on the same tokens:
///
///   D = (X - X~)ᵀ X~ / tokens        (in, in)
///
/// for the layer `module` of `block`, not an expert. Both walks stand in front of the block. Sums in float.
/// Cost: one pass of each model as far as to the layer's input, and in² multiply-adds a token. Threads: all.
[[nodiscard]] Matrix<float> measure_input_drift(const WalkedModel& original, const WalkedModel& quantized,
                                                std::size_t block, const std::string& module);

/// D of inputs about their means, mu in the float model (`then`) and mu~ in the other (`now`): D - (mu - mu~) mu~ᵀ.
void centre_drift(std::span<const double> then, std::span<const double> now, Matrix<float>& drift);

/// (out): by how much the mean outputs of `w` on the float model's inputs are above those of `target` on drifted ones,
/// mu Wᵀ - mu~ Tᵀ, in double.
[[nodiscard]] std::vector<double> output_drift(const WeightSource& w, std::span<const double> then,
                                               const WeightSource& target, std::span<const double> now);

/// The weight that makes up for drifted inputs,
///
///   W + share · W D (H + Λ)⁻¹,        H = X~ᵀ X~ / tokens,   Λ the damping of `options`:
///
/// at share = 1 and without damping, X~ times its transpose is as near to X Wᵀ as any weight brings it, in the mean
/// square over the tokens: the asymmetric target of GPTAQ (arXiv:2504.02692) and Qronos (arXiv:2505.11695). Without
/// drift, W itself, to the bit. `drift` (in, in), `hessian` (in, in), 0 ≤ share ≤ 1. Products in float. Cost: in³/3 + 3
/// · out · in² multiply-adds. Memory: 8 bytes an entry of H, 12 a weight. Throws as factor_hessian().
[[nodiscard]] Matrix<float> drift_corrected(const WeightSource& w, MatrixView<const float> drift,
                                            MatrixView<const float> hessian, const FactorOptions& options,
                                            double share);

}  // namespace nibble::quant

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "calib/collect/layer_input.h"
#include "core/matrix/linear_op.h"
#include "model/architecture/architecture.h"
#include "quant/algo/solve/hessian.h"

namespace nibble::quant {

/// How the inputs X~ (tokens, in) of a layer, those it gets in the network quantized so far, have drifted from the
/// float model's X on the same tokens, and, for a layer whose outputs are added to the residual stream, how that stream
/// R~ (tokens, hidden) has drifted from R when they are: means over the tokens of every other window, and over those of
/// the windows between, which may be one window fewer.
struct LayerDrift {
  struct Half {
    double tokens = 0.0;
    Matrix<float> inputs;            ///< (in, in):     (X - X~)ᵀ X~ / tokens
    Matrix<float> stream;            ///< (hidden, in): (R - R~)ᵀ X~ / (m tokens), m = residual_multiplier; or empty
    std::vector<double> input_mean;  ///< (in):         of X~
    std::vector<double> inputs_off;  ///< (in):         of X - X~
    std::vector<double> stream_off;  ///< (hidden):     of (R - R~) / m; or empty
  };
  std::array<Half, 2> halves;

  double tokens() const { return halves[0].tokens + halves[1].tokens; }
  /// The same of all tokens.
  std::vector<double> mean_of(std::vector<double> Half::*values) const;
  /// (in): the mean of X.
  std::vector<double> float_input_mean() const;
  /// Products about the means, of all tokens, of inputs and streams in place of them.
  void centre();
  /// Of x/s, for a weight W · diag(s). Leaves the means.
  void divide_inputs(const std::vector<float>& s);
};

/// Whether outputs of `layer` are added to the residual stream, times a multiplier that is not 0: of the attention's
/// output and of the last layer of an MLP, without a norm behind it, that is no mixture's.
bool is_added_to_stream(const model::BlockSpec& block, const model::Parameter& layer);

/// What a layer, not an expert, is given in both networks, summed batch by batch; products in float, means in double.
class DriftSums {
 public:
  /// Batches are whole windows of `window_tokens`. `residual_multiplier`: of the block. `squares`: with these.
  DriftSums(std::size_t window_tokens, double residual_multiplier, bool squares = false);

  /// Adds the next batch, in both networks, with the streams of both or of none. Cost: in² multiply-adds a token, as
  /// many for squares, in · hidden for the stream. Memory: half the batch again, and bytes(). Threads: all for
  /// products.
  void add(const calib::LayerInput& original, const calib::LayerInput& quantized);
  /// (in, in): (X - X~)ᵀ (X - X~) / tokens of all tokens; empty without. Precondition: before take().
  [[nodiscard]] Matrix<float> take_squares();
  /// Precondition: two windows or more.
  [[nodiscard]] LayerDrift take();
  /// What sums of a layer's inputs take, with those of a stream of `hidden` (0: without).
  static std::uint64_t bytes(std::uint64_t in, std::uint64_t hidden, bool squares) {
    return 8 * in * (in + hidden) + (squares ? 4 * in * in : 0);
  }

 private:
  std::size_t window_tokens_, windows_ = 0;
  double multiplier_;
  bool with_squares_;
  LayerDrift sums_;
  Matrix<float> squares_;
};

/// (out): by how much the mean outputs of `w` on the float model's inputs are above those of `target` on drifted ones,
/// mu Wᵀ - mu~ Tᵀ, in double.
[[nodiscard]] std::vector<double> output_drift(const WeightSource& w, std::span<const double> then,
                                               const WeightSource& target, std::span<const double> now);

/// Which part of a measured effect is one: 1 - noise / all, at least 0, of its square `all` as measured and the part
/// `noise` of that which is expected of chance (James and Stein, positive part).
double signal_share(double all, double noise);

/// The weight that makes up for drifted inputs,
///
///   W + share · diag(a) (W D + S) (H + Λ)⁻¹,        D, S = drift's inputs, stream,   H = X~ᵀ X~ / tokens,
///
/// Λ the damping of `options`: at share = 1, a = 1 and without damping, X~ times its transpose is as near to X Wᵀ, and
/// the stream that it is added to then as near to the float model's, as any weight brings it, in the mean square over
/// these tokens. Without S and a, the asymmetric target of GPTAQ (arXiv:2504.02692) and Qronos (arXiv:2505.11695).
///
/// A regression on few tokens fits noise. How much of it is, the halves of the windows tell: with M = W D + S of all
/// and M₁, M₂ of the halves, n₁ and n₂ tokens, row i of M is shrunk by
///
///   a_i = signal_share(m_i (H + Λ)⁻¹ m_iᵀ,  n₁ n₂ / n² · (m₁ - m₂)_i (H + Λ)⁻¹ (m₁ - m₂)_iᵀ).
///
/// (What H of one half has and that of the other has not counts as noise too, so that where there is none a little is
/// lost: about in / tokens of what is learned.) Without drift, W itself, to the bit. `hessian` (in, in), 0 ≤ share ≤ 1.
/// Products in float. Cost: in³/3 + 5 · out · in² multiply-adds. Memory: 8 bytes an entry of H, 16 a weight. Throws as
/// factor_hessian().
[[nodiscard]] Matrix<float> drift_corrected(const WeightSource& w, const LayerDrift& drift,
                                            MatrixView<const float> hessian, const FactorOptions& options,
                                            double share);

}  // namespace nibble::quant

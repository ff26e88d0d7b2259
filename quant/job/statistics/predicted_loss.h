#pragma once

#include <span>

#include "quant/job/plan/plan.h"
#include "quant/job/statistics/calibration.h"
#include "quant/tensor/weight_parts.h"

// How the increase of the loss by a weight error Δ = W - What (out, in) is estimated, to second order, in nats per
// token. With T next tokens in a window (of an expert too: those that did not choose it count as well), F the mean
// squared gradients of its mean loss (`--fisher position`: of its summed loss, and then 1/T stands for T), H the
// Hessian of the inputs, centred where the bias is shifted: the mean error is then in the bias.
//
//   fisher          ½ T Σ F Δ²: for errors that are independent of each other, as rounding's are
//   guided-hessian  ½ Σ_i Δ_i H̄ Δ_iᵀ, H̄ the guided Hessian: for errors that feed back into each other. In nats with a
//                   plain guide; a whitened one has the same sum of s, of other tokens
//   kronecker       ½ Σ_ik H_O,ik Δ_i H̄ Δ_kᵀ, H_O the output Hessian, damped as for solving (kOutputDamping) and of a
//                   mean diagonal of 1: for codes whose rows make up for each other (output_hessian)
//   fisher-hessian  ½ T Σ_i f_i Δ_i H Δ_iᵀ, f_i = Σ_j F_ij / Σ_j H_jj: the same from plain statistics

namespace nibble::quant {

/// What an estimate is computed from; kAuto must have been resolved.
calib::StatisticSet statistics_of(LossEstimate estimate);
/// `wanted`, or for kAuto the one that needs least to fit how `items` are quantized.
LossEstimate least_loss_estimate(LossEstimate wanted, std::span<const QuantizeItem> items);

/// `wanted`, or for kAuto the estimate that fits how `items` are quantized by what calibration there is: one for all,
/// so that losses of different weights compare. Throws InvalidArgument with the command that collects what is missing.
LossEstimate choose_loss_estimate(LossEstimate wanted, std::span<const QuantizeItem> items,
                                  const Calibration& calibration);

/// The estimate for what was made of `item`; 0 for float16. Cost: decoding, and for the Hessians a product
/// (out, in) · (in, in). Memory: 4 bytes per weight and the statistics.
double predicted_loss(const QuantizeItem& item, const WeightParts& made, const Calibration& calibration,
                      LossEstimate estimate);

}  // namespace nibble::quant

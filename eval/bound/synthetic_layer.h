#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "calib/stats/layer_stats.h"
#include "core/matrix/matrix_view.h"
#include "eval/bound/water_filling.h"

namespace nibble::eval {

/// What a synthetic layer is drawn from.
struct LayerModel {
  std::uint64_t rows = 512, columns = 512;  ///< out, in
  std::uint64_t tail = 5;                   ///< degrees of freedom of Student's t, from 3; 0: normal
  double input_power = 1.0;                 ///< eigenvalues i^-power of the inputs' covariance, before `spread`
  double output_power = 0.5;                ///< the same of the gradients at the outputs
  double spread = 0.2;  ///< standard deviation of the logarithm of what each input and output is multiplied with
};

/// A layer Y = X Wᵀ about which all is known: weights W (out, in), independent, of variance 1; inputs with mean 0 and
/// covariance H, gradients at the outputs independent of them, with covariance G, both of mean diagonal 1. To second
/// order errors Δ of the weights then cost
///
///   tr(G Δ H Δᵀ),
///
/// on average over W without any bits rows · columns.
struct SyntheticLayer {
  Matrix<float> weight;
  Matrix<double> input_covariance;                        ///< H (in, in) = S Q diag(i^-power) Qᵀ S
  Matrix<double> output_covariance;                       ///< G (out, out)
  std::vector<double> input_variances, output_variances;  ///< eigenvalues of H and G, ascending, positive
  double entropy_power = 1.0;                             ///< of the weights

  /// What no code of so many bits gets below, on average over W, in units of tr(G Δ H Δᵀ) / (rows · columns): exact for
  /// normal weights (as far as blocks grow without end), for heavier tails a lower bound. Let V be W in the eigenbases
  /// of G and H, d_k the mean squared errors of its components, S those with d_k < N. Then bits >= I(V; V̂) >= h(V_S) −
  /// h(V_S − V̂_S) >= Σ_S ½ log₂ N / d_k, the last by the entropy power inequality for the projection S of independent
  /// values (Zamir, Feder 1993); the least Σ g_i h_j d_k under that is water filling of N g_i h_j.
  WaterFilling bound() const;
};

/// Draws a layer; the same model and seed give the same one (on a processor of the same kind).
/// Throws InvalidArgument for 0 rows or columns, a tail of 1 or 2, powers and spreads that are negative or not finite;
/// NumericalError for eigenvalues that span more than double can tell apart.
/// Cost  O(rows³ + columns³).
SyntheticLayer make_layer(const LayerModel& model, std::uint64_t seed);

/// tr(G Δ H Δᵀ) / (rows · columns) of Δ = What - W. Cost  two products in double, (out, in) · (in, in) and (out, out) ·
/// (out, in).
double weighed_error(const SyntheticLayer& layer, const Matrix<float>& decoded);

/// tr(G W H Wᵀ) / (rows · columns).
double weighed_power(const SyntheticLayer& layer);

/// The statistics that calibration on text without end would collect: Fisher sensitivities G_ii H_jj, Hessians guided
/// and not H (gradients of the same size for every token, which guide nothing), of the outputs G.
calib::LayerStats exact_statistics(const SyntheticLayer& layer, std::string module);

}  // namespace nibble::eval

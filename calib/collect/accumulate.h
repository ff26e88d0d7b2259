#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "calib/stats/layer_stats.h"
#include "calib/stats/run_settings.h"
#include "core/matrix/matrix_view.h"

// Sums of a batch of windows into LayerSums. Window w is the rows [windows[w], windows[w + 1]) of X and dY; it may be
// empty, as for an expert that no token of it chose. Every
// element is summed by one thread in the order of the rows, in tiles of fixed size, so the number of threads does not
// change a bit. Products of a window are float GEMMs (core/matrix/gemm.h); sums over windows are double.

namespace nibble::calib {

/// Rows where windows begin, and behind the last one their number.
using Windows = std::span<const std::size_t>;

/// Where a matrix first holds NaN or infinity.
struct Position {
  std::size_t row = 0, col = 0;
};
std::optional<Position> find_not_finite(MatrixView<const float> x);

/// sum_x, sum_x2, sum_abs_x, min_x, max_x of X (tokens, in). Cost: one pass.
void add_activations(MatrixView<const float> x, LayerSums& sums);

/// sum_xxt += XᵀX; only the tiles on and above the diagonal, mirror_upper() does the rest once at the end.
void add_hessian(MatrixView<const float> x, Windows windows, Matrix<double>& sum_xxt);
void mirror_upper(Matrix<double>& sums);

/// Sensitivities of W (out, in) from X (tokens, in) and dY (tokens, out):
///   sequence  fisher += sum over windows of G∘G with G = dYᵀX of the window
///   position  fisher += (dY∘dY)ᵀ (X∘X)
/// Cost: 2·tokens·out·in operations of GEMM. Scratch: one tile a thread; for `position` the squares as well.
void add_fisher(FisherFlavour flavour, MatrixView<const float> x, MatrixView<const float> dy, Windows windows,
                Matrix<double>& fisher);

/// What tokens weigh, (tokens): the mean over columns of Z², Z = V Wᵀ with `whitening` W (n, n), or V (tokens, n)
/// itself where that is empty. A window's Z is a product of its own, so batches change no bit of it.
std::vector<double> token_weights(MatrixView<const float> v, const Matrix<float>& whitening, Windows windows);

/// sum_s, sum_s2, sum_s_x, sum_s_xxt (upper tiles) with the weights s (tokens).
void add_guided_hessian(MatrixView<const float> x, std::span<const double> s, Windows windows, LayerSums& sums);

/// sum_dydyt += dYᵀ diag(r) dY of dY (tokens, out), with weights r (tokens), or none for 1; upper tiles as
/// add_hessian().
void add_output_hessian(MatrixView<const float> dy, std::span<const double> r, Windows windows,
                        Matrix<double>& sum_dydyt);

/// X - mean, rounded once: what the layer would see if its mean input had been moved into the bias. With it the
/// gradient of a window becomes dYᵀ(X - mean).
Matrix<float> centred(MatrixView<const float> x, std::span<const double> mean);

}  // namespace nibble::calib

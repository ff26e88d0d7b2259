#include "quant/algo/solve/coupled_fit.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/checked_math.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/gemm.h"
#include "quant/algo/solve/coupled_descent.h"
#include "quant/algo/solve/palette_rows.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kFitRowTile = 128, kFitColumnTile = 32;
constexpr std::size_t kProductTile = 256;
constexpr std::size_t kMostScaleSteps = 100;
constexpr double kScaleTolerance = 1e-8;  // of the slope's squared length at first; scales are rounded to 2^-11

/// Qᵀ (in, out): the entries of the codes, 0 where a value is sparse, and in rows of scale 0, which stay rows of zeros:
/// a scale that is fitted to them, or beside them, must not count on more. In tiles: a column of it is a row of codes.
template <class Code>
Matrix<float> entries_by_input(const BasicPaletteWeight<Code>& weight) {
  const std::size_t m = weight.codes.rows(), n = weight.codes.cols();
  Matrix<float> entries(n, m);
  parallel_for_tiles(m, kFitRowTile, [&](std::size_t begin, std::size_t end) {
    for (std::size_t j = 0; j < n; j += kFitColumnTile)
      for (std::size_t i = begin; i < end; ++i) {
        if (scale_of(weight, i) == 0.0) continue;
        const auto palette = weight.palettes.row(i / rows_per_group(weight));
        for (std::size_t c = j; c < std::min(j + kFitColumnTile, n); ++c) entries(c, i) = palette[weight.codes(i, c)];
      }
    for (std::size_t i = begin; i < end; ++i)
      for_sparse(weight, i, [&](std::size_t j, float) { entries(j, i) = 0.0f; });
  });
  return entries;
}

/// Aᵀ B (m, m) of A and B (n, m), where that is symmetric: of the tiles beside the diagonal those below it.
Matrix<float> symmetric_product(MatrixView<const float> a, MatrixView<const float> b) {
  const std::size_t m = a.cols(), tiles = divide_up(m, kProductTile);
  std::vector<std::pair<std::size_t, std::size_t>> below;
  for (std::size_t r = 0; r < tiles; ++r)
    for (std::size_t c = 0; c <= r; ++c) below.emplace_back(r * kProductTile, c * kProductTile);
  Matrix<float> product(m, m);
  parallel_for(below.size(), [&](std::size_t tile) {
    const auto [r, c] = below[tile];
    const std::size_t rows = std::min(kProductTile, m - r), cols = std::min(kProductTile, m - c);
    gemm<float>(Transpose::kYes, Transpose::kNo, 1.0f, a.cols_slice(r, rows), b.cols_slice(c, cols), 0.0f,
                product.view().block(r, c, rows, cols));
    if (r == c) return;
    for (std::size_t i = 0; i < cols; ++i)
      for (std::size_t k = 0; k < rows; ++k) product(c + i, r + k) = product(r + k, c + i);
  });
  return product;
}

/// diag(Q G): row by row the sum of q_ij g_ji, of Qᵀ and G (in, out).
std::vector<double> sums_along_rows(MatrixView<const float> entries, MatrixView<const float> slopes) {
  std::vector<double> sums(entries.cols());
  parallel_for_tiles(sums.size(), kFitRowTile, [&](std::size_t begin, std::size_t end) {
    for (std::size_t j = 0; j < entries.rows(); ++j)
      for (std::size_t i = begin; i < end; ++i)
        sums[i] += static_cast<double>(entries(j, i)) * static_cast<double>(slopes(j, i));
  });
  return sums;
}

/// A x.
std::vector<double> times(const Matrix<float>& a, std::span<const double> x) {
  std::vector<double> image(x.size());
  parallel_for_tiles(x.size(), kFitRowTile, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      for (std::size_t j = 0; j < x.size(); ++j) image[i] += static_cast<double>(a(i, j)) * x[j];
  });
  return image;
}

/// Makes the slope A δ − b of a change δ small by conjugate gradients, from δ = 0; what A says nothing of stays.
std::vector<double> solve_change(const Matrix<float>& a, std::vector<double> slope) {
  const std::size_t m = slope.size();
  std::vector<double> change(m), direction(m);
  const auto preconditioned = [&](std::size_t i) {
    return a(i, i) > 0.0f ? slope[i] / static_cast<double>(a(i, i)) : 0.0;
  };
  double length = 0.0, first = 0.0;
  for (std::size_t step = 0; step < kMostScaleSteps; ++step) {
    const double before = length;
    length = 0.0;
    for (std::size_t i = 0; i < m; ++i) length += slope[i] * preconditioned(i);
    if (step == 0) first = length;
    if (!(length > kScaleTolerance * first)) break;
    for (std::size_t i = 0; i < m; ++i)
      direction[i] = preconditioned(i) + (step > 0 ? length / before : 0.0) * direction[i];
    const std::vector<double> image = times(a, direction);
    double curvature = 0.0;
    for (std::size_t i = 0; i < m; ++i) curvature += direction[i] * image[i];
    if (!(curvature > 0.0)) break;
    for (std::size_t i = 0; i < m; ++i) {
      change[i] += length / curvature * direction[i];
      slope[i] -= length / curvature * image[i];
    }
  }
  return change;
}

}  // namespace

template <class Code>
const Matrix<float>& CoupledFit::target_slopes(const BasicPaletteWeight<Code>& weight) {
  if (weight.sparse.empty()) {
    if (target_slopes_.size() == 0) target_slopes_ = coupled_slopes(w_, h_, h_out_);
    return target_slopes_;
  }
  Matrix<float> target(w_.rows(), w_.cols());
  for (std::size_t i = 0; i < w_.rows(); ++i) {
    std::copy(w_.row(i).begin(), w_.row(i).end(), target.row(i).begin());
    for_sparse(weight, i, [&](std::size_t j, float kept) { target(i, j) -= kept; });
  }
  return target_slopes_ = coupled_slopes(target, h_, h_out_);
}

template <class Code>
Matrix<float> CoupledFit::product_with_inputs(BasicPaletteWeight<Code>& weight, const Matrix<float>* target) const {
  const std::size_t m = w_.rows();
  const Matrix<float> entries = entries_by_input(weight);
  Matrix<float> product(entries.rows(), m);
  parallel_gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, h_, entries, 0.0f, product);
  if (target == nullptr) return product;
  weight.scales.resize(m, 1.0f);
  Matrix<float> a = symmetric_product(entries, product);
  parallel_for_tiles(m, kFitRowTile, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      for (std::size_t j = 0; j < m; ++j) a(i, j) *= h_out_(i, j);
  });
  std::vector<double> slope = sums_along_rows(entries, *target);
  const std::vector<double> own = times(a, std::vector<double>(weight.scales.begin(), weight.scales.end()));
  for (std::size_t i = 0; i < m; ++i) slope[i] -= own[i];
  const std::vector<double> change = solve_change(a, std::move(slope));
  for (std::size_t i = 0; i < m; ++i) store_scale(scale_of(weight, i) + change[i], weight.scales[i]);
  return product;
}

template <class Code>
void CoupledFit::fit_scales(BasicPaletteWeight<Code>& weight) {
  (void)product_with_inputs(weight, &target_slopes(weight));
}

template <class Code>
Matrix<float> CoupledFit::slopes(BasicPaletteWeight<Code>& weight, bool scales) {
  const Matrix<float>& target = target_slopes(weight);
  Matrix<float> product = product_with_inputs(weight, scales ? &target : nullptr);
  if (!weight.scales.empty())
    parallel_for_tiles(product.rows(), kFitRowTile, [&](std::size_t begin, std::size_t end) {
      for (std::size_t j = begin; j < end; ++j)
        for (std::size_t i = 0; i < product.cols(); ++i) product(j, i) *= weight.scales[i];
    });
  Matrix<float> slopes = target;
  parallel_gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, product, h_out_, -1.0f, slopes);
  return slopes;
}

template void CoupledFit::fit_scales(PaletteWeight&);
template void CoupledFit::fit_scales(WindowedWeight&);
template Matrix<float> CoupledFit::slopes(PaletteWeight&, bool);
template Matrix<float> CoupledFit::slopes(WindowedWeight&, bool);

}  // namespace nibble::quant

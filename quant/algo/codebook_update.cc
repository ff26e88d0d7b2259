#include "quant/algo/codebook_update.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "core/error.h"
#include "core/gemm.h"
#include "core/thread_pool.h"
#include "quant/algo/column_rounding.h"
#include "quant/algo/coordinate_descent.h"
#include "quant/algo/error_feedback.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kRowTile = 32;
constexpr std::size_t kChunk = 64;  // columns of H at a time: the sums of 16 codes then stay in the first-level cache
constexpr double kRidge = 1e-7;

/// Rows [begin, end) of one group.
struct RowTile {
  std::size_t group, begin, end;
};

/// A and b of the normal equations.
struct NormalEquations {
  Matrix<double> a;
  std::vector<double> b;
};

std::size_t rows_per_group(const PaletteWeight& weight) {
  return weight.group_rows == 0 ? weight.codes.rows() : weight.group_rows;
}

std::vector<RowTile> cut_into_tiles(const PaletteWeight& weight) {
  std::vector<RowTile> tiles;
  const std::size_t rows = weight.codes.rows(), group_rows = rows_per_group(weight);
  for (std::size_t begin = 0; begin < rows;) {
    const std::size_t group = begin / group_rows;
    const std::size_t end = std::min({begin + kRowTile, (group + 1) * group_rows, rows});
    tiles.push_back({group, begin, end});
    begin = end;
  }
  return tiles;
}

/// Sums over the rows of a tile. For each row the rows of H are added up by code, Z_k = P_kᵀ H, a few columns at a
/// time; then A_kl sums Z_k over the columns of code l.
NormalEquations sum_tile(MatrixView<const float> w, MatrixView<const float> h, const PaletteWeight& weight,
                         const RowTile& tile) {
  const std::size_t n = w.cols(), k = weight.palettes.cols();
  NormalEquations sums{Matrix<double>(k, k), std::vector<double>(k)};
  Matrix<double> by_code(k, kChunk);
  for (std::size_t column = 0; column < n; column += kChunk) {
    const std::size_t width = std::min(kChunk, n - column);
    for (std::size_t i = tile.begin; i < tile.end; ++i) {
      const auto codes = weight.codes.row(i);
      std::fill(by_code.values().begin(), by_code.values().end(), 0.0);
      for (std::size_t j = 0; j < n; ++j) {
        const float* __restrict from = h.row(j).data() + column;
        double* __restrict to = by_code.row(codes[j]).data();
        for (std::size_t c = 0; c < width; ++c) to[c] += static_cast<double>(from[c]);
      }
      const double scale = weight.scales.empty() ? 1.0 : static_cast<double>(weight.scales[i]);
      for (std::size_t code = 0; code < k; ++code) {
        const auto z = by_code.row(code);
        for (std::size_t c = 0; c < width; ++c) {
          sums.a(code, codes[column + c]) += scale * scale * z[c];
          sums.b[code] += scale * z[c] * static_cast<double>(w(i, column + c));
        }
      }
    }
  }
  return sums;
}

/// c + (A + ridge)⁻¹ (b - A c).
std::vector<double> solve(const NormalEquations& sums, std::span<const float> palette) {
  const auto k = static_cast<Eigen::Index>(palette.size());
  using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::MatrixXd a = Eigen::Map<const RowMajor>(sums.a.data(), k, k);
  a = (0.5 * (a + a.transpose())).eval();
  const Eigen::VectorXd now = Eigen::Map<const Eigen::VectorXf>(palette.data(), k).cast<double>();
  const Eigen::VectorXd slope = Eigen::Map<const Eigen::VectorXd>(sums.b.data(), k) - a * now;
  const double ridge = kRidge * a.diagonal().mean();
  std::vector<double> result(now.begin(), now.end());
  if (!(ridge > 0.0)) return result;
  a.diagonal().array() += ridge;
  const Eigen::VectorXd change = a.ldlt().solve(slope);
  for (Eigen::Index c = 0; c < k; ++c) result[static_cast<std::size_t>(c)] += change[c];
  return result;
}

/// Stores a palette rounded and sorted, and lets the codes of its rows follow.
void store_sorted(const std::vector<double>& entries, DType dtype, std::size_t group, PaletteWeight& weight) {
  const std::size_t k = entries.size();
  std::vector<float> rounded(k);
  for (std::size_t c = 0; c < k; ++c) {
    const auto entry = static_cast<float>(entries[c]);
    rounded[c] = dtype == DType::kF16 ? round_to_f16(entry) : entry;
    NIBBLE_REQUIRE(std::isfinite(rounded[c]), NumericalError, "update_palettes: entry {} of palette {} does not fit {}",
                   entries[c], group, dtype_name(dtype));
  }
  std::vector<std::size_t> order(k);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rounded[a] < rounded[b]; });
  std::vector<std::uint8_t> new_code(k);
  for (std::size_t c = 0; c < k; ++c) {
    weight.palettes(group, c) = rounded[order[c]];
    new_code[order[c]] = static_cast<std::uint8_t>(c);
  }
  const std::size_t begin = group * rows_per_group(weight);
  const std::size_t end = std::min(begin + rows_per_group(weight), weight.codes.rows());
  for (std::size_t r = begin; r < end; ++r)
    for (std::uint8_t& code : weight.codes.row(r)) code = new_code[code];
}

void require_valid(MatrixView<const float> w, MatrixView<const float> h, const PaletteWeight& weight) {
  const std::size_t rows = w.rows(), group_rows = std::max<std::size_t>(1, rows_per_group(weight));
  NIBBLE_REQUIRE(!w.empty() && h.rows() == w.cols() && h.cols() == w.cols() && weight.codes.rows() == rows &&
                     weight.codes.cols() == w.cols() && (weight.scales.empty() || weight.scales.size() == rows) &&
                     weight.palettes.rows() == (rows + group_rows - 1) / group_rows,
                 InvalidArgument,
                 "palettes under a Hessian: weights ({}, {}), Hessian ({}, {}), codes ({}, {}), {} scales and {} "
                 "palettes of {} rows each do not fit",
                 rows, w.cols(), h.rows(), h.cols(), weight.codes.rows(), weight.codes.cols(), weight.scales.size(),
                 weight.palettes.rows(), group_rows);
  const std::size_t k = weight.palettes.cols();
  NIBBLE_REQUIRE(k >= 1 && std::all_of(weight.codes.values().begin(), weight.codes.values().end(),
                                       [&](std::uint8_t code) { return code < k; }),
                 InvalidArgument, "palettes under a Hessian: a code is not below {}, the entries of a palette", k);
}

}  // namespace

void update_palettes(MatrixView<const float> w, MatrixView<const float> h, DType palette_dtype, PaletteWeight& weight) {
  require_valid(w, h, weight);
  NIBBLE_REQUIRE(palette_dtype == DType::kF16 || palette_dtype == DType::kF32, InvalidArgument,
                 "update_palettes: palettes are F16 or F32, not {}", dtype_name(palette_dtype));
  const std::vector<RowTile> tiles = cut_into_tiles(weight);
  std::vector<NormalEquations> sums(tiles.size());
  parallel_for(tiles.size(), [&](std::size_t t) { sums[t] = sum_tile(w, h, weight, tiles[t]); });

  for (std::size_t t = 0; t < tiles.size();) {
    NormalEquations total = std::move(sums[t]);
    const std::size_t group = tiles[t].group;
    for (++t; t < tiles.size() && tiles[t].group == group; ++t) {
      for (std::size_t i = 0; i < total.a.size(); ++i) total.a.data()[i] += sums[t].a.data()[i];
      for (std::size_t c = 0; c < total.b.size(); ++c) total.b[c] += sums[t].b[c];
    }
    store_sorted(solve(total, weight.palettes.row(group)), palette_dtype, group, weight);
  }
}

void update_scales(MatrixView<const float> w, MatrixView<const float> h, PaletteWeight& weight) {
  require_valid(w, h, weight);
  weight.scales.resize(w.rows(), 1.0f);
  parallel_for_tiles(w.rows(), kRowTile, [&](std::size_t begin, std::size_t end) {
    Matrix<float> q(end - begin, w.cols()), product(end - begin, w.cols());
    for (std::size_t r = begin; r < end; ++r)
      for (std::size_t c = 0; c < w.cols(); ++c)
        q(r - begin, c) = weight.palettes(r / rows_per_group(weight), weight.codes(r, c));
    gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, q, h, 0.0f, product);
    for (std::size_t r = begin; r < end; ++r) {
      double along = 0.0, square = 0.0;
      for (std::size_t c = 0; c < w.cols(); ++c) {
        along += static_cast<double>(w(r, c)) * static_cast<double>(product(r - begin, c));
        square += static_cast<double>(q(r - begin, c)) * static_cast<double>(product(r - begin, c));
      }
      const float scale = square > 0.0 ? round_to_f16(static_cast<float>(along / square)) : 0.0f;
      if (std::isfinite(scale) && scale != 0.0f) weight.scales[r] = scale;
    }
  });
}

RefineHistory refine_palettes(MatrixView<const float> w, MatrixView<const float> h, const HessianFactor* feedback,
                              const RefineOptions& options, PaletteWeight& weight) {
  require_valid(w, h, weight);
  const auto rounding = [&](const PaletteWeight& of) { return PaletteRounding(of.palettes, of.group_rows, of.scales); };
  RefineHistory losses{hessian_error(w, h, rounding(weight), weight.codes)};
  PaletteWeight running = weight;
  double best = losses.front();
  for (std::size_t i = 0; i <= options.iterations && options.iterations > 0; ++i) {
    update_palettes(w, h, options.palette_dtype, running);
    if (options.scales) update_scales(w, h, running);
    PaletteRounding nearest = rounding(running);
    const bool last = i == options.iterations;
    if (!last && feedback != nullptr) running.codes = round_with_feedback(w, *feedback, nearest).codes;
    losses.push_back(!last && options.sweeps > 0 ? coordinate_descent(w, h, nearest, options.sweeps, running.codes).loss
                                                 : hessian_error(w, h, nearest, running.codes));
    if (losses.back() < best) {
      best = losses.back();
      weight = running;
    }
  }
  return losses;
}

}  // namespace nibble::quant

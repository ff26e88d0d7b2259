#include "calib/collect/accumulate.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "core/machine/thread_pool.h"
#include "core/matrix/gemm.h"

namespace nibble::calib {
namespace {

constexpr std::size_t kRowTile = 64;      // of passes over rows
constexpr std::size_t kColumnTile = 256;  // of sums down columns: long enough reads, sums in the nearest cache
// Of matrices in float and double beside the library's packing buffers: 256 · 256 · 12 bytes stay in a 2 MB cache.
constexpr std::size_t kTile = 256;

bool all_finite(std::span<const float> values) {
  std::uint32_t found = 0;  // without an early exit the loop uses vectors
  for (const float value : values) {
    const std::uint32_t exponent = std::bit_cast<std::uint32_t>(value) & 0x7f800000u;
    found |= static_cast<std::uint32_t>(exponent == 0x7f800000u);
  }
  return found == 0;
}

// Calls body(r, rows, c, cols) for the tiles of a matrix, on all threads.
template <class Body>
void for_tiles(std::size_t rows, std::size_t cols, bool upper_only, const Body& body) {
  const std::size_t down = (rows + kTile - 1) / kTile, across = (cols + kTile - 1) / kTile;
  parallel_for(down * across, [&](std::size_t tile) {
    const std::size_t r = tile / across * kTile, c = tile % across * kTile;
    if (!upper_only || c >= r) body(r, std::min(kTile, rows - r), c, std::min(kTile, cols - c));
  });
}

// Adds f(element of AᵀB of each window) to sums, tile by tile; a tile sees all windows while it is in the cache.
template <class Map>
void add_products(MatrixView<const float> a, MatrixView<const float> b, Windows windows, bool upper_only,
                  Matrix<double>& sums, const Map& map) {
  for_tiles(a.cols(), b.cols(), upper_only, [&](std::size_t r, std::size_t rows, std::size_t c, std::size_t cols) {
    thread_local std::vector<float> product(kTile * kTile);
    const MatrixView<float> g(product.data(), rows, cols);
    for (std::size_t w = 0; w + 1 < windows.size(); ++w) {
      const std::size_t t = windows[w], tokens = windows[w + 1] - t;
      if (tokens == 0) continue;
      gemm<float>(Transpose::kYes, Transpose::kNo, 1.0f, a.block(t, r, tokens, rows), b.block(t, c, tokens, cols), 0.0f,
                  g);
      for (std::size_t i = 0; i < rows; ++i) {
        const float* from = g.row(i).data();
        double* to = sums.row(r + i).data() + c;
        for (std::size_t j = 0; j < cols; ++j) to[j] += map(static_cast<double>(from[j]));
      }
    }
  });
}

template <class Map>
Matrix<float> mapped(MatrixView<const float> x, const Map& map) {
  Matrix<float> result(x.rows(), x.cols());
  parallel_for_tiles(x.rows(), kRowTile, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const float* from = x.row(r).data();
      float* to = result.row(r).data();
      for (std::size_t c = 0; c < x.cols(); ++c) to[c] = map(r, c, from[c]);
    }
  });
  return result;
}

// w v vᵀ as (√w v)(√w v)ᵀ: symmetric to the last bit, and √w keeps clear of the smallest floats where w would not.
Matrix<float> weighted_rows(MatrixView<const float> v, std::span<const double> weights) {
  std::vector<float> roots(weights.size());
  std::transform(weights.begin(), weights.end(), roots.begin(),
                 [](double weight) { return static_cast<float>(std::sqrt(weight)); });
  return mapped(v, [&](std::size_t t, std::size_t, float value) { return roots[t] * value; });
}

constexpr auto kSame = [](double value) { return value; };
constexpr auto kSquare = [](double value) { return value * value; };

}  // namespace

std::optional<Position> find_not_finite(MatrixView<const float> x) {
  std::vector<char> bad(x.rows());
  parallel_for_tiles(x.rows(), kRowTile, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) bad[r] = !all_finite(x.row(r));
  });
  const auto row = std::find(bad.begin(), bad.end(), char{1});
  if (row == bad.end()) return std::nullopt;
  const auto r = static_cast<std::size_t>(row - bad.begin());
  const auto values = x.row(r);
  const auto col = std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
  return Position{r, static_cast<std::size_t>(col - values.begin())};
}

void add_activations(MatrixView<const float> x, LayerSums& sums) {
  parallel_for_tiles(x.cols(), kColumnTile, [&](std::size_t begin, std::size_t end) {
    const std::size_t count = end - begin;
    // Copies, which the compiler knows not to overlap with anything.
    std::array<double, kColumnTile> sum{}, squares{}, magnitudes{};
    std::array<float, kColumnTile> smallest{}, largest{};
    const auto for_each_array = [&](const auto& exchange) {
      exchange(sums.sum_x.data(), sum.data());
      exchange(sums.sum_x2.data(), squares.data());
      exchange(sums.sum_abs_x.data(), magnitudes.data());
      exchange(sums.min_x.data(), smallest.data());
      exchange(sums.max_x.data(), largest.data());
    };
    for_each_array([&](const auto* whole, auto* part) { std::copy_n(whole + begin, count, part); });
    for (std::size_t r = 0; r < x.rows(); ++r) {
      const float* row = x.row(r).data() + begin;
      for (std::size_t c = 0; c < count; ++c) {
        const auto value = static_cast<double>(row[c]);
        sum[c] += value;
        squares[c] += value * value;
        magnitudes[c] += std::abs(value);
      }
      for (std::size_t c = 0; c < count; ++c) {
        smallest[c] = row[c] < smallest[c] ? row[c] : smallest[c];
        largest[c] = row[c] > largest[c] ? row[c] : largest[c];
      }
    }
    for_each_array([&](auto* whole, const auto* part) { std::copy_n(part, count, whole + begin); });
  });
}

void add_hessian(MatrixView<const float> x, Windows windows, Matrix<double>& sum_xxt) {
  add_products(x, x, windows, true, sum_xxt, kSame);
}

void mirror_upper(Matrix<double>& sums) {
  for_tiles(sums.rows(), sums.cols(), true, [&](std::size_t r, std::size_t rows, std::size_t c, std::size_t cols) {
    for (std::size_t i = r; i < r + rows; ++i)
      for (std::size_t j = std::max(c, i + 1); j < c + cols; ++j) sums(j, i) = sums(i, j);
  });
}

void add_fisher(FisherFlavour flavour, MatrixView<const float> x, MatrixView<const float> dy, Windows windows,
                Matrix<double>& fisher) {
  if (flavour == FisherFlavour::kSequence) return add_products(dy, x, windows, false, fisher, kSquare);
  const auto square = [](std::size_t, std::size_t, float value) { return value * value; };
  const Matrix<float> dy2 = mapped(dy, square), x2 = mapped(x, square);
  add_products(dy2, x2, windows, false, fisher, kSame);
}

std::vector<double> token_weights(MatrixView<const float> v, const Matrix<float>& whitening, Windows windows) {
  if (whitening.rows() != 0) {
    Matrix<float> z(v.rows(), v.cols());
    for (std::size_t w = 0; w + 1 < windows.size(); ++w) {
      const std::size_t t = windows[w], tokens = windows[w + 1] - t;
      if (tokens == 0) continue;
      parallel_gemm<float>(Transpose::kNo, Transpose::kYes, 1.0f, v.rows_slice(t, tokens), whitening.view(), 0.0f,
                           z.view().rows_slice(t, tokens));
    }
    return token_weights(z.view(), {}, windows);
  }
  std::vector<double> weights(v.rows());
  parallel_for_tiles(v.rows(), kRowTile, [&](std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t) {
      double total = 0.0;
      for (const float value : v.row(t)) total += kSquare(static_cast<double>(value));
      weights[t] = total / static_cast<double>(v.cols());
    }
  });
  return weights;
}

void add_guided_hessian(MatrixView<const float> x, std::span<const double> s, Windows windows, LayerSums& sums) {
  for (const double value : s) {
    sums.sum_s += value;
    sums.sum_s2 = sums.sum_s2.value_or(0.0) + value * value;
  }
  parallel_for_tiles(x.cols(), kColumnTile, [&](std::size_t begin, std::size_t end) {
    for (std::size_t t = 0; t < x.rows(); ++t) {
      const float* row = x.row(t).data();
      for (std::size_t c = begin; c < end; ++c) sums.sum_s_x[c] += s[t] * static_cast<double>(row[c]);
    }
  });
  const Matrix<float> weighted = weighted_rows(x, s);
  add_products(weighted.view(), weighted.view(), windows, true, sums.sum_s_xxt, kSame);
}

void add_output_hessian(MatrixView<const float> dy, std::span<const double> r, Windows windows,
                        Matrix<double>& sum_dydyt) {
  if (r.empty()) return add_products(dy, dy, windows, true, sum_dydyt, kSame);
  const Matrix<float> weighted = weighted_rows(dy, r);
  add_products(weighted.view(), weighted.view(), windows, true, sum_dydyt, kSame);
}

Matrix<float> centred(MatrixView<const float> x, std::span<const double> mean) {
  return mapped(x, [&](std::size_t, std::size_t c, float value) {
    return static_cast<float>(static_cast<double>(value) - mean[c]);
  });
}

}  // namespace nibble::calib

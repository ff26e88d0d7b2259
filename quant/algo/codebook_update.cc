#include "quant/algo/codebook_update.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "core/gemm.h"
#include "core/thread_pool.h"
#include "quant/algo/column_rounding.h"
#include "quant/algo/coordinate_descent.h"
#include "quant/algo/error_feedback.h"
#include "quant/algo/palette_rounding.h"
#include "quant/algo/sparse_rounding.h"
#include "quant/algo/window_rounding.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kUpdateRowTile = 128;
constexpr double kTolerance = 1e-10;  // of the slope's squared length: products in float are good for 1e-12

template <class Code>
std::size_t rows_per_group(const BasicPaletteWeight<Code>& weight) {
  return weight.group_rows == 0 ? weight.codes.rows() : weight.group_rows;
}

template <class Code>
double scale_of(const BasicPaletteWeight<Code>& weight, std::size_t row) {
  return weight.scales.empty() ? 1.0 : static_cast<double>(weight.scales[row]);
}

/// Calls use(column, value) for the sparse values of a row, columns ascending.
template <class Code, class Use>
void for_sparse(const BasicPaletteWeight<Code>& weight, std::size_t row, const Use& use) {
  if (weight.sparse.empty()) return;
  const Outliers& places = weight.sparse.places;
  for (auto at = static_cast<std::size_t>(places.rows[row]); at < static_cast<std::size_t>(places.rows[row + 1]); ++at)
    use(static_cast<std::size_t>(places.columns[at]), weight.sparse.values[at]);
}

/// Calls use(column, code) for the places of a row that have a code.
template <class Code, class Use>
void for_coded(const BasicPaletteWeight<Code>& weight, std::size_t row, const Use& use) {
  const auto codes = weight.codes.row(row);
  std::size_t next = 0;
  const auto upto = [&](std::size_t end) {
    for (; next < end; ++next) use(next, codes[next]);
  };
  for_sparse(weight, row, [&](std::size_t column, float) {
    upto(column);
    ++next;
  });
  upto(codes.size());
}

/// (groups, k): for each entry the sum of s_i (D H)_ij over the places (i, j) that hold its code, with the rows of D
/// (out, in) as `fill_row` writes them.
template <class Code>
Matrix<double> sums_by_entry(MatrixView<const float> h, const BasicPaletteWeight<Code>& weight,
                             const std::function<void(std::size_t row, std::span<float> values)>& fill_row) {
  const std::size_t rows = weight.codes.rows(), n = weight.codes.cols(), k = weight.palettes.cols();
  Matrix<double> by_row(rows, k);
  parallel_for_tiles(rows, kUpdateRowTile, [&](std::size_t begin, std::size_t end) {
    Matrix<float> d(end - begin, n), product(end - begin, n);
    for (std::size_t i = begin; i < end; ++i) fill_row(i, d.row(i - begin));
    gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, d, h, 0.0f, product);
    for (std::size_t i = begin; i < end; ++i) {
      const auto sums = by_row.row(i);
      for_coded(weight, i, [&](std::size_t j, Code code) { sums[code] += static_cast<double>(product(i - begin, j)); });
    }
  });
  Matrix<double> result(weight.palettes.rows(), k);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t c = 0; c < k; ++c) result(i / rows_per_group(weight), c) += scale_of(weight, i) * by_row(i, c);
  return result;
}

/// The diagonal of A without the coupling between inputs: what conjugate gradients are preconditioned with. 0 for
/// entries that no input has.
template <class Code>
Matrix<double> uncoupled_diagonal(MatrixView<const float> h, const BasicPaletteWeight<Code>& weight) {
  Matrix<double> result(weight.palettes.rows(), weight.palettes.cols());
  for (std::size_t i = 0; i < weight.codes.rows(); ++i) {
    const auto sums = result.row(i / rows_per_group(weight));
    const double square = scale_of(weight, i) * scale_of(weight, i);
    for_coded(weight, i, [&](std::size_t j, Code code) { sums[code] += square * static_cast<double>(h(j, j)); });
  }
  return result;
}

/// Conjugate gradients on A c = b from the palettes as they are, for all groups side by side: each step is one product
/// with H.
template <class Code>
class PaletteSolver {
 public:
  PaletteSolver(MatrixView<const float> w, MatrixView<const float> h, const BasicPaletteWeight<Code>& weight)
      : h_(h),
        weight_(weight),
        diagonal_(uncoupled_diagonal(h, weight)),
        entries_(weight.palettes.rows(), weight.palettes.cols()),
        direction_(entries_.rows(), entries_.cols()),
        slope_(sums_by_entry(h, weight,
                             [&](std::size_t row, std::span<float> values) {
                               const auto palette = weight.palettes.row(row / rows_per_group(weight));
                               const float scale = weight.scales.empty() ? 1.0f : weight.scales[row];
                               for (std::size_t j = 0; j < values.size(); ++j)
                                 values[j] = w(row, j) - scale * palette[weight.codes(row, j)];
                               for_sparse(weight, row,
                                          [&](std::size_t j, float kept) { values[j] = w(row, j) - kept; });
                             })),
        length_(entries_.rows()),
        least_(entries_.rows()) {
    std::transform(weight.palettes.values().begin(), weight.palettes.values().end(), entries_.data(),
                   [](float entry) { return static_cast<double>(entry); });
  }

  Matrix<double> solve() {
    for (std::size_t group = 0; group < entries_.rows(); ++group) {
      turn(group);
      least_[group] = kTolerance * length_[group];
    }
    // As many steps as entries are exact but for rounding; most systems end earlier, at kTolerance.
    for (std::size_t step = 0; step < entries_.cols() && any_moving(); ++step) advance();
    return std::move(entries_);
  }

 private:
  bool moving(std::size_t group) const { return length_[group] > least_[group]; }
  bool any_moving() const {
    for (std::size_t group = 0; group < entries_.rows(); ++group)
      if (moving(group)) return true;
    return false;
  }

  /// A new direction: the slope divided by the diagonal, made conjugate to the last one.
  void turn(std::size_t group) {
    const double before = length_[group];
    length_[group] = 0.0;
    for (std::size_t c = 0; c < entries_.cols(); ++c)
      if (diagonal_(group, c) > 0.0) length_[group] += slope_(group, c) * slope_(group, c) / diagonal_(group, c);
    const double keep = before > 0.0 ? length_[group] / before : 0.0;
    for (std::size_t c = 0; c < entries_.cols(); ++c)
      if (diagonal_(group, c) > 0.0)
        direction_(group, c) = slope_(group, c) / diagonal_(group, c) + keep * direction_(group, c);
  }

  void advance() {
    const Matrix<double> image = sums_by_entry(h_, weight_, [&](std::size_t row, std::span<float> values) {
      const auto direction = std::as_const(direction_).row(row / rows_per_group(weight_));
      std::vector<float> scaled(direction.size());
      for (std::size_t c = 0; c < scaled.size(); ++c)
        scaled[c] = static_cast<float>(scale_of(weight_, row) * direction[c]);
      for (std::size_t j = 0; j < values.size(); ++j) values[j] = scaled[weight_.codes(row, j)];
      for_sparse(weight_, row, [&](std::size_t j, float) { values[j] = 0.0f; });
    });
    for (std::size_t group = 0; group < entries_.rows(); ++group) {
      if (!moving(group)) continue;
      double curvature = 0.0;
      for (std::size_t c = 0; c < entries_.cols(); ++c) curvature += direction_(group, c) * image(group, c);
      const double step = curvature > 0.0 ? length_[group] / curvature : 0.0;
      for (std::size_t c = 0; c < entries_.cols(); ++c) {
        entries_(group, c) += step * direction_(group, c);
        slope_(group, c) -= step * image(group, c);
      }
      turn(group);
      if (step == 0.0) length_[group] = 0.0;  // flat, as far as float can tell
    }
  }

  MatrixView<const float> h_;
  const BasicPaletteWeight<Code>& weight_;
  Matrix<double> diagonal_, entries_, direction_, slope_;  // (groups, k)
  std::vector<double> length_, least_;                     // (groups): slopeᵀ slope / diagonal, and where to stop
};

/// Stores a palette rounded and, unless it is one of windows, sorted, and lets the codes of its rows follow.
template <class Code>
void store_rounded(std::span<const double> entries, DType dtype, std::size_t group, BasicPaletteWeight<Code>& weight) {
  const std::size_t k = entries.size();
  std::vector<float> rounded(k);
  std::transform(entries.begin(), entries.end(), rounded.begin(),
                 [](double entry) { return static_cast<float>(entry); });
  round_palette(rounded, dtype, group);
  if (weight.window_step > 0) {
    std::copy(rounded.begin(), rounded.end(), weight.palettes.row(group).begin());
    return;
  }
  std::vector<std::size_t> order(k);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rounded[a] < rounded[b]; });
  std::vector<Code> new_code(k);
  for (std::size_t c = 0; c < k; ++c) {
    weight.palettes(group, c) = rounded[order[c]];
    new_code[order[c]] = static_cast<Code>(c);
  }
  const std::size_t begin = group * rows_per_group(weight);
  const std::size_t end = std::min(begin + rows_per_group(weight), weight.codes.rows());
  for (std::size_t r = begin; r < end; ++r)
    for (Code& code : weight.codes.row(r)) code = new_code[code];
}

template <class Code>
void require_valid(MatrixView<const float> w, MatrixView<const float> h, const BasicPaletteWeight<Code>& weight) {
  const std::size_t rows = w.rows(), group_rows = std::max<std::size_t>(1, rows_per_group(weight));
  NIBBLE_REQUIRE(!w.empty() && h.rows() == w.cols() && h.cols() == w.cols() && weight.codes.rows() == rows &&
                     weight.codes.cols() == w.cols() && (weight.scales.empty() || weight.scales.size() == rows) &&
                     weight.palettes.rows() == (rows + group_rows - 1) / group_rows &&
                     (weight.sparse.empty() || weight.sparse.places.rows.size() == rows + 1),
                 InvalidArgument,
                 "palettes under a Hessian: weights ({}, {}), Hessian ({}, {}), codes ({}, {}), {} scales and {} "
                 "palettes of {} rows each do not fit",
                 rows, w.cols(), h.rows(), h.cols(), weight.codes.rows(), weight.codes.cols(), weight.scales.size(),
                 weight.palettes.rows(), group_rows);
  const std::size_t k = weight.palettes.cols();
  NIBBLE_REQUIRE(k >= 1 && std::all_of(weight.codes.values().begin(), weight.codes.values().end(),
                                       [&](Code code) { return code < k; }),
                 InvalidArgument, "palettes under a Hessian: a code is not below {}, the entries of a palette", k);
  NIBBLE_REQUIRE(
      (weight.window_step > 0) == (sizeof(Code) == 2) && (weight.window_step == 0 || weight.palettes.rows() == 1),
      InvalidArgument, "palettes under a Hessian: windows that go on by {} bits, of {} palettes", weight.window_step,
      weight.palettes.rows());
}

/// Nearest entries, and values of their own for the sparse places, of a weight that outlives it.
class EntryRounding {
 public:
  explicit EntryRounding(PaletteWeight& weight) : entries_(weight.palettes, weight.group_rows, weight.scales) {
    if (!weight.sparse.empty()) sparse_.emplace(entries_, weight.codes.cols(), weight.sparse);
  }
  ColumnRounding& get() { return sparse_ ? static_cast<ColumnRounding&>(*sparse_) : entries_; }

 private:
  PaletteRounding entries_;
  std::optional<SparseRounding> sparse_;
};

/// The best windows.
class StreamRounding {
 public:
  explicit StreamRounding(WindowedWeight& weight)
      : windows_(weight.palettes.row(0), weight.window_step, weight.codes.rows(), weight.scales) {}
  BasicColumnRounding<std::uint16_t>& get() { return windows_; }

 private:
  WindowRounding windows_;
};

template <class Code>
using RoundingOf = std::conditional_t<sizeof(Code) == 1, EntryRounding, StreamRounding>;

}  // namespace

template <class Code>
void update_palettes(MatrixView<const float> w, MatrixView<const float> h, DType palette_dtype,
                     BasicPaletteWeight<Code>& weight) {
  require_valid(w, h, weight);
  const Matrix<double> entries = PaletteSolver<Code>(w, h, weight).solve();
  for (std::size_t group = 0; group < entries.rows(); ++group)
    store_rounded<Code>(entries.row(group), palette_dtype, group, weight);
}

template <class Code>
void update_scales(MatrixView<const float> w, MatrixView<const float> h, BasicPaletteWeight<Code>& weight) {
  require_valid(w, h, weight);
  weight.scales.resize(w.rows(), 1.0f);
  parallel_for_tiles(w.rows(), kUpdateRowTile, [&](std::size_t begin, std::size_t end) {
    Matrix<float> q(end - begin, w.cols()), product(end - begin, w.cols());
    for (std::size_t r = begin; r < end; ++r)
      for_coded(weight, r,
                [&](std::size_t c, Code code) { q(r - begin, c) = weight.palettes(r / rows_per_group(weight), code); });
    gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, q, h, 0.0f, product);
    for (std::size_t r = begin; r < end; ++r) {
      double along = 0.0, square = 0.0;
      for (std::size_t c = 0; c < w.cols(); ++c) {
        along += static_cast<double>(w(r, c)) * static_cast<double>(product(r - begin, c));
        square += static_cast<double>(q(r - begin, c)) * static_cast<double>(product(r - begin, c));
      }
      for_sparse(weight, r, [&](std::size_t c, float kept) {
        along -= static_cast<double>(kept) * static_cast<double>(product(r - begin, c));
      });
      const float scale = square > 0.0 ? round_to_f16(static_cast<float>(along / square)) : 0.0f;
      if (std::isfinite(scale) && scale != 0.0f) weight.scales[r] = scale;
    }
  });
}

template <class Code>
RefineHistory refine_palettes(MatrixView<const float> w, MatrixView<const float> h, const HessianFactor* feedback,
                              const RefineOptions& options, BasicPaletteWeight<Code>& weight) {
  require_valid(w, h, weight);
  RefineHistory losses{hessian_error(w, h, RoundingOf<Code>(weight).get(), weight.codes)};
  BasicPaletteWeight<Code> running = weight;
  double best = losses.front();
  for (std::size_t i = 0; i <= options.iterations && options.iterations > 0; ++i) {
    update_palettes(w, h, options.palette_dtype, running);
    if (options.scales) update_scales(w, h, running);
    RoundingOf<Code> rounding(running);
    BasicColumnRounding<Code>& nearest = rounding.get();
    const bool last = i == options.iterations;
    if (!last && feedback != nullptr) running.codes = round_with_feedback(w, *feedback, nearest).codes;
    losses.push_back(!last && options.sweeps > 0
                         ? coordinate_descent(w, h, nearest, options.sweeps, running.codes, options.least_gain).loss
                         : hessian_error(w, h, nearest, running.codes));
    if (losses.back() < best) {
      best = losses.back();
      weight = running;
    }
  }
  return losses;
}

template void update_palettes(MatrixView<const float>, MatrixView<const float>, DType, PaletteWeight&);
template void update_palettes(MatrixView<const float>, MatrixView<const float>, DType, WindowedWeight&);
template void update_scales(MatrixView<const float>, MatrixView<const float>, PaletteWeight&);
template void update_scales(MatrixView<const float>, MatrixView<const float>, WindowedWeight&);
template RefineHistory refine_palettes(MatrixView<const float>, MatrixView<const float>, const HessianFactor*,
                                       const RefineOptions&, PaletteWeight&);
template RefineHistory refine_palettes(MatrixView<const float>, MatrixView<const float>, const HessianFactor*,
                                       const RefineOptions&, WindowedWeight&);

}  // namespace nibble::quant

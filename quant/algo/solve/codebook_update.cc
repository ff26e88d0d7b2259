#include "quant/algo/solve/codebook_update.h"

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
#include "quant/algo/palettes/palette_columns.h"
#include "quant/algo/palettes/palette_rounding.h"
#include "quant/algo/palettes/sparse_rounding.h"
#include "quant/algo/rounding/column_rounding.h"
#include "quant/algo/solve/coordinate_descent.h"
#include "quant/algo/solve/coupled_descent.h"
#include "quant/algo/solve/error_feedback.h"
#include "quant/algo/windows/window_rounding.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kUpdateRowTile = 128;
constexpr std::size_t kSlopeTile = 16;         // floats, a cache line
constexpr std::size_t kMostCoupledGroups = 4;  // times their entries: steps for palettes that are coupled
constexpr std::size_t kMostScaleSteps = 100;
constexpr double kScaleTolerance = 1e-8;  // of the same; scales are rounded to 2^-11
constexpr double kTolerance = 1e-10;      // of the slope's squared length: products in float are good for 1e-12
// Of refine_palettes(): its codes move next, and gain far more than what further steps would.
constexpr double kLeastStep = 1e-3;

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

/// w − what is stored, of one row.
template <class Code>
void fill_errors(MatrixView<const float> w, const BasicPaletteWeight<Code>& weight, std::size_t row,
                 std::span<float> values) {
  const auto palette = weight.palettes.row(row / rows_per_group(weight));
  const float scale = weight.scales.empty() ? 1.0f : weight.scales[row];
  for (std::size_t j = 0; j < values.size(); ++j) values[j] = w(row, j) - scale * palette[weight.codes(row, j)];
  for_sparse(weight, row, [&](std::size_t j, float kept) { values[j] = w(row, j) - kept; });
}

using FillRow = std::function<void(std::size_t row, std::span<float> values)>;

/// D H, rows [begin, begin + product.rows()) of it, with the rows of D (out, in) as `fill_row` writes them.
void multiply_rows(MatrixView<const float> h, const FillRow& fill_row, std::size_t begin, MatrixView<float> product) {
  Matrix<float> d(product.rows(), product.cols());
  for (std::size_t i = 0; i < d.rows(); ++i) fill_row(begin + i, d.row(i));
  gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, d, h, 0.0f, product);
}

/// H_O D H.
Matrix<float> coupled_product(MatrixView<const float> h, MatrixView<const float> h_out, const FillRow& fill_row) {
  Matrix<float> product(h_out.rows(), h.rows()), coupled(h_out.rows(), h.rows());
  parallel_for_tiles(product.rows(), kUpdateRowTile, [&](std::size_t begin, std::size_t end) {
    multiply_rows(h, fill_row, begin, product.view().rows_slice(begin, end - begin));
  });
  parallel_gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, h_out, product, 0.0f, coupled);
  return coupled;
}

/// (groups, k): for each entry the sum of s_i X_ij over the places (i, j) that hold its code. `rows_of(begin, end,
/// room)` gives rows [begin, end) of X (out, in), in `room` if need be.
template <class Code, class RowsOf>
Matrix<double> sums_by_entry(const BasicPaletteWeight<Code>& weight, const RowsOf& rows_of) {
  const std::size_t rows = weight.codes.rows(), k = weight.palettes.cols();
  Matrix<double> by_row(rows, k);
  parallel_for_tiles(rows, kUpdateRowTile, [&](std::size_t begin, std::size_t end) {
    Matrix<float> room;
    const MatrixView<const float> x = rows_of(begin, end, room);
    for (std::size_t i = begin; i < end; ++i) {
      const auto values = x.row(i - begin);
      const auto sums = by_row.row(i);
      for_coded(weight, i, [&](std::size_t j, Code code) { sums[code] += static_cast<double>(values[j]); });
    }
  });
  Matrix<double> result(weight.palettes.rows(), k);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t c = 0; c < k; ++c) result(i / rows_per_group(weight), c) += scale_of(weight, i) * by_row(i, c);
  return result;
}

/// Those of D H, or of H_O D H where H_O is given.
template <class Code>
Matrix<double> sums_of_product(MatrixView<const float> h, MatrixView<const float> h_out,
                               const BasicPaletteWeight<Code>& weight, const FillRow& fill_row) {
  using View = MatrixView<const float>;
  if (h_out.empty())
    return sums_by_entry(weight, [&](std::size_t begin, std::size_t end, Matrix<float>& room) -> View {
      room = Matrix<float>(end - begin, h.cols());
      multiply_rows(h, fill_row, begin, room);
      return room;
    });
  const Matrix<float> coupled = coupled_product(h, h_out, fill_row);
  return sums_by_entry(weight, [&](std::size_t begin, std::size_t end, Matrix<float>&) {
    return coupled.view().rows_slice(begin, end - begin);
  });
}

/// Those of −S, S as coupled_slopes() gives it: of the errors of the stored weight, with the other sign.
template <class Code>
Matrix<double> sums_of_slopes(MatrixView<const float> slopes, const BasicPaletteWeight<Code>& weight) {
  return sums_by_entry(weight, [&](std::size_t begin, std::size_t end, Matrix<float>& room) -> MatrixView<const float> {
    room = Matrix<float>(end - begin, slopes.rows());
    for (std::size_t j = 0; j < room.cols(); j += kSlopeTile)
      for (std::size_t i = 0; i < room.rows(); ++i)
        for (std::size_t c = j; c < std::min(j + kSlopeTile, room.cols()); ++c) room(i, c) = -slopes(c, begin + i);
    return room;
  });
}

/// The diagonal of A without the coupling between inputs: what conjugate gradients are preconditioned with. 0 for
/// entries that no input has.
template <class Code>
Matrix<double> uncoupled_diagonal(MatrixView<const float> h, MatrixView<const float> h_out,
                                  const BasicPaletteWeight<Code>& weight) {
  Matrix<double> result(weight.palettes.rows(), weight.palettes.cols());
  for (std::size_t i = 0; i < weight.codes.rows(); ++i) {
    const auto sums = result.row(i / rows_per_group(weight));
    const double own = h_out.empty() ? 1.0 : static_cast<double>(h_out(i, i));
    const double square = own * scale_of(weight, i) * scale_of(weight, i);
    for_coded(weight, i, [&](std::size_t j, Code code) { sums[code] += square * static_cast<double>(h(j, j)); });
  }
  return result;
}

/// Conjugate gradients on A c = b from the palettes as they are, for all groups side by side: each step is one product
/// with H.
template <class Code>
class PaletteSolver {
 public:
  /// `slopes`: coupled_slopes() of the stored weight's errors, or empty.
  PaletteSolver(MatrixView<const float> w, MatrixView<const float> h, MatrixView<const float> h_out,
                const BasicPaletteWeight<Code>& weight, MatrixView<const float> slopes)
      : h_(h),
        h_out_(h_out),
        weight_(weight),
        diagonal_(uncoupled_diagonal(h, h_out, weight)),
        entries_(weight.palettes.rows(), weight.palettes.cols()),
        direction_(entries_.rows(), entries_.cols()),
        slope_(slopes.empty() ? sums_of_product(h, h_out, weight,
                                                [&](std::size_t row, std::span<float> values) {
                                                  fill_errors(w, weight, row, values);
                                                })
                              : sums_of_slopes(slopes, weight)) {
    if (h_out.empty()) {
      for (std::size_t group = 0; group < entries_.rows(); ++group) systems_.push_back({group, group + 1});
    } else {
      systems_.push_back({0, entries_.rows()});
    }
    std::transform(weight.palettes.values().begin(), weight.palettes.values().end(), entries_.data(),
                   [](float entry) { return static_cast<double>(entry); });
  }

  /// `least_step`: a system ends with the step that gains less than this share of all before.
  Matrix<double> solve(double least_step) {
    for (System& system : systems_) {
      turn(system);
      system.least = kTolerance * system.length;
    }
    // As many steps as entries are exact but for rounding; most systems end earlier, at kTolerance.
    for (std::size_t step = 0; step < most_steps() && any_moving(); ++step) advance(least_step);
    return std::move(entries_);
  }

 private:
  // Groups whose entries are solved for together: one by one, or all where outputs are coupled.
  struct System {
    std::size_t begin = 0, end = 0;    // groups
    double length = 0.0, least = 0.0;  // slopeᵀ slope / diagonal, and where to stop
    double gain = 0.0;                 // of all steps
    bool moving() const { return length > least; }
  };

  bool any_moving() const {
    return std::any_of(systems_.begin(), systems_.end(), [](const System& system) { return system.moving(); });
  }
  std::size_t most_steps() const {
    return entries_.cols() * (h_out_.empty() ? 1 : std::min(entries_.rows(), kMostCoupledGroups));
  }

  template <class Use>
  void for_entries(const System& system, const Use& use) const {
    for (std::size_t group = system.begin; group < system.end; ++group)
      for (std::size_t c = 0; c < entries_.cols(); ++c) use(group, c);
  }

  /// A new direction: the slope divided by the diagonal, made conjugate to the last one.
  void turn(System& system) {
    const double before = system.length;
    system.length = 0.0;
    for_entries(system, [&](std::size_t group, std::size_t c) {
      if (diagonal_(group, c) > 0.0) system.length += slope_(group, c) * slope_(group, c) / diagonal_(group, c);
    });
    const double keep = before > 0.0 ? system.length / before : 0.0;
    for_entries(system, [&](std::size_t group, std::size_t c) {
      if (diagonal_(group, c) > 0.0)
        direction_(group, c) = slope_(group, c) / diagonal_(group, c) + keep * direction_(group, c);
    });
  }

  void advance(double least_step) {
    const Matrix<double> image = sums_of_product(h_, h_out_, weight_, [&](std::size_t row, std::span<float> values) {
      const auto direction = std::as_const(direction_).row(row / rows_per_group(weight_));
      std::vector<float> scaled(direction.size());
      for (std::size_t c = 0; c < scaled.size(); ++c)
        scaled[c] = static_cast<float>(scale_of(weight_, row) * direction[c]);
      for (std::size_t j = 0; j < values.size(); ++j) values[j] = scaled[weight_.codes(row, j)];
      for_sparse(weight_, row, [&](std::size_t j, float) { values[j] = 0.0f; });
    });
    for (System& system : systems_) {
      if (!system.moving()) continue;
      double curvature = 0.0;
      for_entries(system,
                  [&](std::size_t group, std::size_t c) { curvature += direction_(group, c) * image(group, c); });
      const double length = system.length, step = curvature > 0.0 ? length / curvature : 0.0;
      for_entries(system, [&](std::size_t group, std::size_t c) {
        entries_(group, c) += step * direction_(group, c);
        slope_(group, c) -= step * image(group, c);
      });
      turn(system);
      const double gain = step * length;
      system.gain += gain;
      if (gain <= least_step * (system.gain - gain)) system.length = 0.0;
      if (step == 0.0) system.length = 0.0;  // flat, as far as float can tell
    }
  }

  MatrixView<const float> h_, h_out_;
  const BasicPaletteWeight<Code>& weight_;
  Matrix<double> diagonal_, entries_, direction_, slope_;  // (groups, k)
  std::vector<System> systems_;
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

/// The change of all scales that is best under both Hessians, by conjugate gradients on the normal equations
/// A δ = b, A = H_O ∘ (Q H Qᵀ), b = diag(H_O (W − Ŵ) H Qᵀ).
template <class Code>
std::vector<double> coupled_scale_changes(MatrixView<const float> w, MatrixView<const float> h,
                                          MatrixView<const float> h_out, const BasicPaletteWeight<Code>& weight) {
  const std::size_t m = w.rows();
  Matrix<float> q(m, w.cols()), product(m, w.cols()), a(m, m);
  for (std::size_t i = 0; i < m; ++i)
    for_coded(weight, i,
              [&](std::size_t j, Code code) { q(i, j) = weight.palettes(i / rows_per_group(weight), code); });
  parallel_gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, q, h, 0.0f, product);
  parallel_gemm<float>(Transpose::kNo, Transpose::kYes, 1.0f, product, q, 0.0f, a);
  const Matrix<float> slopes =
      coupled_product(h, h_out, [&](std::size_t row, std::span<float> values) { fill_errors(w, weight, row, values); });
  std::vector<double> change(m), slope(m), direction(m), image(m);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < m; ++j) a(i, j) *= h_out(i, j);
    for (std::size_t j = 0; j < w.cols(); ++j)
      slope[i] += static_cast<double>(slopes(i, j)) * static_cast<double>(q(i, j));
  }
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
    double curvature = 0.0;
    for (std::size_t i = 0; i < m; ++i)
      direction[i] = preconditioned(i) + (step > 0 ? length / before : 0.0) * direction[i];
    parallel_for_tiles(m, kUpdateRowTile, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        image[i] = 0.0;
        for (std::size_t j = 0; j < m; ++j) image[i] += static_cast<double>(a(i, j)) * direction[j];
      }
    });
    for (std::size_t i = 0; i < m; ++i) curvature += direction[i] * image[i];
    if (!(curvature > 0.0)) break;
    for (std::size_t i = 0; i < m; ++i) {
      change[i] += length / curvature * direction[i];
      slope[i] -= length / curvature * image[i];
    }
  }
  return change;
}

void store_scale(double value, float& scale) {
  const float rounded = round_to_f16(static_cast<float>(value));
  if (std::isfinite(rounded) && rounded != 0.0f) scale = rounded;
}

template <class Code>
void require_valid(MatrixView<const float> w, MatrixView<const float> h, const BasicPaletteWeight<Code>& weight,
                   MatrixView<const float> h_out = {}) {
  NIBBLE_REQUIRE(h_out.empty() || (h_out.rows() == w.rows() && h_out.cols() == w.rows()), InvalidArgument,
                 "palettes under a Hessian: {} outputs and a Hessian of ({}, {}) outputs do not fit", w.rows(),
                 h_out.rows(), h_out.cols());
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

template <class Code>
void solve_palettes(MatrixView<const float> w, MatrixView<const float> h, DType palette_dtype,
                    BasicPaletteWeight<Code>& weight, MatrixView<const float> h_out, Matrix<float> slopes,
                    double least_step) {
  PaletteSolver<Code> solver(w, h, h_out, weight, std::as_const(slopes).view());
  slopes = {};
  const Matrix<double> entries = solver.solve(least_step);
  for (std::size_t group = 0; group < entries.rows(); ++group)
    store_rounded<Code>(entries.row(group), palette_dtype, group, weight);
}

}  // namespace

template <class Code>
void update_palettes(MatrixView<const float> w, MatrixView<const float> h, DType palette_dtype,
                     BasicPaletteWeight<Code>& weight, MatrixView<const float> h_out) {
  require_valid(w, h, weight, h_out);
  solve_palettes(w, h, palette_dtype, weight, h_out, {}, 0.0);
}

template <class Code>
void update_scales(MatrixView<const float> w, MatrixView<const float> h, BasicPaletteWeight<Code>& weight,
                   MatrixView<const float> h_out) {
  require_valid(w, h, weight, h_out);
  weight.scales.resize(w.rows(), 1.0f);
  if (!h_out.empty()) {
    const std::vector<double> changes = coupled_scale_changes(w, h, h_out, weight);
    for (std::size_t r = 0; r < w.rows(); ++r) store_scale(scale_of(weight, r) + changes[r], weight.scales[r]);
    return;
  }
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
      if (square > 0.0) store_scale(along / square, weight.scales[r]);
    }
  });
}

template <class Code>
RefineHistory refine_palettes(MatrixView<const float> w, MatrixView<const float> h, const HessianFactor* feedback,
                              const RefineOptions& options, BasicPaletteWeight<Code>& weight,
                              MatrixView<const float> h_out) {
  require_valid(w, h, weight, h_out);
  Matrix<float> slopes;  // with h_out: of the running weight, for the next update of palettes
  const auto loss_of = [&](BasicPaletteWeight<Code>& of) {
    RoundingOf<Code> rounding(of);
    if (h_out.empty()) return hessian_error(w, h, rounding.get(), of.codes);
    const Matrix<float> errors = decoded_errors(w, rounding.get(), of.codes);
    slopes = coupled_slopes(errors, h, h_out);
    return coupled_error(errors, slopes);
  };
  const auto improve = [&](BasicPaletteWeight<Code>& of) {
    RoundingOf<Code> rounding(of);
    if (!h_out.empty()) {
      auto result = coupled_descent(w, h, h_out, rounding.get(), options.sweeps, of.codes, options.least_gain);
      slopes = std::move(result.slopes);
      return result.loss;
    }
    if (feedback != nullptr) of.codes = round_with_feedback(w, *feedback, rounding.get()).codes;
    return options.sweeps > 0
               ? coordinate_descent(w, h, rounding.get(), options.sweeps, of.codes, options.least_gain).loss
               : hessian_error(w, h, rounding.get(), of.codes);
  };
  RefineHistory losses{loss_of(weight)};
  BasicPaletteWeight<Code> running = weight;
  double best = losses.front();
  for (std::size_t i = 0; i <= options.iterations && options.iterations > 0; ++i) {
    solve_palettes(w, h, options.palette_dtype, running, h_out, std::exchange(slopes, {}), kLeastStep);
    if (options.scales) update_scales(w, h, running, h_out);
    losses.push_back(i == options.iterations ? loss_of(running) : improve(running));
    if (losses.back() < best) {
      best = losses.back();
      weight = running;
    }
  }
  return losses;
}

template void update_palettes(MatrixView<const float>, MatrixView<const float>, DType, PaletteWeight&,
                              MatrixView<const float>);
template void update_palettes(MatrixView<const float>, MatrixView<const float>, DType, WindowedWeight&,
                              MatrixView<const float>);
template void update_scales(MatrixView<const float>, MatrixView<const float>, PaletteWeight&, MatrixView<const float>);
template void update_scales(MatrixView<const float>, MatrixView<const float>, WindowedWeight&, MatrixView<const float>);
template RefineHistory refine_palettes(MatrixView<const float>, MatrixView<const float>, const HessianFactor*,
                                       const RefineOptions&, PaletteWeight&, MatrixView<const float>);
template RefineHistory refine_palettes(MatrixView<const float>, MatrixView<const float>, const HessianFactor*,
                                       const RefineOptions&, WindowedWeight&, MatrixView<const float>);

}  // namespace nibble::quant

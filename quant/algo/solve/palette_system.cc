#include "quant/algo/solve/palette_system.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "core/machine/thread_pool.h"
#include "core/matrix/gemm.h"
#include "quant/algo/solve/palette_rows.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kSystemRowTile = 128;
constexpr std::size_t kSlopeTile = 16;         // floats, a cache line
constexpr std::size_t kMostCoupledGroups = 4;  // times their entries: steps for palettes that are coupled
constexpr double kTolerance = 1e-10;           // of the slope's squared length: products in float are good for 1e-12

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
  parallel_for_tiles(product.rows(), kSystemRowTile, [&](std::size_t begin, std::size_t end) {
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
  parallel_for_tiles(rows, kSystemRowTile, [&](std::size_t begin, std::size_t end) {
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

}  // namespace

template <class Code>
Matrix<double> solve_palette_system(MatrixView<const float> w, MatrixView<const float> h, MatrixView<const float> h_out,
                                    const BasicPaletteWeight<Code>& weight, Matrix<float> slopes, double least_step) {
  PaletteSolver<Code> solver(w, h, h_out, weight, std::as_const(slopes).view());
  slopes = {};
  return solver.solve(least_step);
}

template Matrix<double> solve_palette_system(MatrixView<const float>, MatrixView<const float>, MatrixView<const float>,
                                             const PaletteWeight&, Matrix<float>, double);
template Matrix<double> solve_palette_system(MatrixView<const float>, MatrixView<const float>, MatrixView<const float>,
                                             const WindowedWeight&, Matrix<float>, double);

}  // namespace nibble::quant

#include "quant/algo/solve/refine_palettes.h"

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "quant/algo/palettes/palette_columns.h"
#include "quant/algo/palettes/sparse_rounding.h"
#include "quant/algo/rounding/column_rounding.h"
#include "quant/algo/solve/codebook_update.h"
#include "quant/algo/solve/coupled_descent.h"
#include "quant/algo/solve/coupled_fit.h"
#include "quant/algo/solve/error_feedback.h"
#include "quant/algo/solve/palette_rows.h"
#include "quant/algo/windows/window_rounding.h"

namespace nibble::quant {
namespace {

// The codes move next, and gain far more than what further steps of the palettes would.
constexpr double kLeastStep = 1e-3;

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

/// What improves a weight round by round: the errors of its rows on their own.
template <class Code>
class PlainRounds {
 public:
  PlainRounds(MatrixView<const float> w, MatrixView<const float> h, const HessianFactor* feedback,
              const RefineOptions& options)
      : w_(w), h_(h), feedback_(feedback), options_(options) {}

  double loss(BasicPaletteWeight<Code>& weight) const {
    RoundingOf<Code> rounding(weight);
    return hessian_error(w_, h_, rounding.get(), weight.codes);
  }
  void fit(BasicPaletteWeight<Code>& weight) const {
    update_palettes(w_, h_, options_.palette_dtype, weight, {}, {}, kLeastStep);
    if (options_.scales) update_scales(w_, h_, weight);
  }
  double improve(BasicPaletteWeight<Code>& weight) const {
    RoundingOf<Code> rounding(weight);
    if (feedback_ != nullptr) weight.codes = round_with_feedback(w_, *feedback_, rounding.get()).codes;
    if (options_.sweeps == 0) return loss(weight);
    return coordinate_descent(w_, h_, rounding.get(), options_.sweeps, weight.codes, options_.least_gain).loss;
  }

 private:
  MatrixView<const float> w_, h_;
  const HessianFactor* feedback_;
  const RefineOptions& options_;
};

/// And those of all rows together. The slopes of the errors are handed on from step to step.
template <class Code>
class CoupledRounds {
 public:
  CoupledRounds(MatrixView<const float> w, MatrixView<const float> h, MatrixView<const float> h_out,
                const RefineOptions& options, Matrix<float> slopes)
      : w_(w), h_(h), h_out_(h_out), options_(options), fit_(w, h, h_out), slopes_(std::move(slopes)) {}

  double loss(BasicPaletteWeight<Code>& weight) {
    RoundingOf<Code> rounding(weight);
    const Matrix<float> errors = decoded_errors(w_, rounding.get(), weight.codes);
    if (slopes_.size() == 0) slopes_ = coupled_slopes(errors, h_, h_out_);
    return coupled_error(errors, slopes_);
  }
  void fit(BasicPaletteWeight<Code>& weight) {
    update_palettes(w_, h_, options_.palette_dtype, weight, h_out_, std::exchange(slopes_, {}), kLeastStep);
    slopes_ = fit_.slopes(weight, options_.scales);
  }
  double improve(BasicPaletteWeight<Code>& weight) {
    RoundingOf<Code> rounding(weight);
    auto result = coupled_descent(w_, h_, h_out_, rounding.get(), options_.sweeps, weight.codes, options_.least_gain,
                                  std::exchange(slopes_, {}));
    slopes_ = std::move(result.slopes);
    return result.loss;
  }

 private:
  MatrixView<const float> w_, h_, h_out_;
  const RefineOptions& options_;
  CoupledFit fit_;
  Matrix<float> slopes_;  // of the running weight, or empty
};

template <class Code, class Rounds>
RefineHistory refine(Rounds& rounds, std::size_t iterations, BasicPaletteWeight<Code>& weight) {
  RefineHistory losses{rounds.loss(weight)};
  BasicPaletteWeight<Code> running = weight;
  double best = losses.front();
  for (std::size_t i = 0; i <= iterations && iterations > 0; ++i) {
    try {
      rounds.fit(running);
    } catch (const NumericalError&) {
      break;  // an entry is not finite in its type; what was there before is
    }
    losses.push_back(i == iterations ? rounds.loss(running) : rounds.improve(running));
    if (losses.back() < best) {
      best = losses.back();
      weight = running;
    }
  }
  return losses;
}

}  // namespace

template <class Code>
RefineHistory refine_palettes(MatrixView<const float> w, MatrixView<const float> h, const HessianFactor* feedback,
                              const RefineOptions& options, BasicPaletteWeight<Code>& weight,
                              MatrixView<const float> h_out, Matrix<float> slopes) {
  require_palettes(w, h, weight, h_out);
  if (h_out.empty()) {
    PlainRounds<Code> rounds(w, h, feedback, options);
    return refine(rounds, options.iterations, weight);
  }
  CoupledRounds<Code> rounds(w, h, h_out, options, std::move(slopes));
  return refine(rounds, options.iterations, weight);
}

template RefineHistory refine_palettes(MatrixView<const float>, MatrixView<const float>, const HessianFactor*,
                                       const RefineOptions&, PaletteWeight&, MatrixView<const float>, Matrix<float>);
template RefineHistory refine_palettes(MatrixView<const float>, MatrixView<const float>, const HessianFactor*,
                                       const RefineOptions&, WindowedWeight&, MatrixView<const float>, Matrix<float>);

}  // namespace nibble::quant

#include "quant/tensor/palette_tensor.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.h"
#include "quant/algo/kmeans/palette.h"
#include "quant/algo/kmeans/sensitivity.h"
#include "quant/algo/palettes/outliers.h"
#include "quant/algo/palettes/palettize.h"
#include "quant/algo/palettes/scaled_palette.h"
#include "quant/algo/vectors/vector_palette.h"
#include "quant/algo/windows/windowed_palette.h"
#include "quant/store/quantization_config.h"

namespace nibble::quant {
namespace {

DType palette_dtype(const TensorSettings& settings) {
  switch (settings.palette_dtype) {
    case PaletteDtype::kInt8:
      return DType::kI8;
    case PaletteDtype::kFloat32:
      return DType::kF32;
    case PaletteDtype::kFloat16:
      break;
  }
  return DType::kF16;
}

ScaleSign scale_sign(Sign sign) {
  switch (sign) {
    case Sign::kFlip:
      return ScaleSign::kFlip;
    case Sign::kSearch:
      return ScaleSign::kSearch;
    case Sign::kPlain:
      break;
  }
  return ScaleSign::kPlain;
}

ScaledPaletteOptions scaled_options(const TensorSettings& settings, const PalettizeOptions& palette) {
  return {.palette = palette,
          .scale = settings.scaling == Scaling::kAbsmax ? RowScale::kAbsmax : RowScale::kStd,
          .sign = scale_sign(settings.sign),
          .objective = settings.weighting_scale == WeightingScale::kObjective,
          .refit_scales = settings.scaling == Scaling::kLeastSquares,
          .joint_iterations = settings.joint_iterations};
}

PalettizeOptions palettize_options(const TensorSettings& settings) {
  return {
      .bits = settings.bits, .group_rows = settings.effective_group_size(), .palette_dtype = palette_dtype(settings)};
}

// Scales, palettes and codes; scales stay empty without scaling. Codes are the nearest entries.
ScaledPalettization fit_palettes(MatrixView<const float> w, MatrixView<const float> weights,
                                 const TensorSettings& settings) {
  if (settings.cluster_dim > 1) {
    VectorPalettization made = palettize_vectors(w, weights,
                                                 {.bits = settings.bits,
                                                  .dim = settings.cluster_dim,
                                                  .group_rows = settings.effective_group_size(),
                                                  .palette_dtype = palette_dtype(settings),
                                                  .seed = settings.seed});
    return {{}, std::move(made.palettes), std::move(made.codes), made.cost, 0.0, {}};
  }
  const PalettizeOptions options = palettize_options(settings);
  if (settings.scaling != Scaling::kNone) return palettize_scaled(w, weights, scaled_options(settings, options));
  Palettization made = palettize(w, weights, options);
  return {{}, std::move(made.palettes), std::move(made.codes), made.cost, made.optimality_gap, {}, made.fitted_cost};
}

QuantizedTensor stored(const std::string& name, const Matrix<float>& w, const TensorSettings& settings,
                       const ScaledPalettization& fitted) {
  return make_palette_tensor(name, stored_tensor(settings, w.rows(), w.cols()).spec, fitted.codes.values(),
                             fitted.palettes.values(), palette_dtype(settings), fitted.scales);
}

// The error that keeping a weight saves: of its nearest code when no weight is kept, weighed by the compensated cost of
// its input where a solver makes up for errors, else as palettes are fitted.
Matrix<double> saved_errors(const std::string& name, const Matrix<float>& w, const Matrix<float>& weights,
                            const TensorSettings& settings, const WeightStatistics& statistics) {
  const QuantizedTensor all = stored(
      name, w, settings, fit_palettes(w, weights.size() == 0 ? MatrixView<const float>() : weights.view(), settings));
  const bool solved = settings.solver != Solver::kNearest;
  const std::vector<double> costs = solved ? compensated_costs(statistics.hessian, settings) : std::vector<double>();
  Matrix<double> saved(w.rows(), w.cols());
  std::vector<float> row(w.cols());
  for (std::size_t i = 0; i < w.rows(); ++i) {
    all.decode_rows(i, i + 1, row.data());
    for (std::size_t j = 0; j < w.cols(); ++j) {
      const double error = static_cast<double>(w(i, j)) - static_cast<double>(row[j]);
      const double cost = solved ? costs[j] : weights.size() == 0 ? 1.0 : static_cast<double>(weights(i, j));
      saved(i, j) = cost * error * error;
    }
  }
  return saved;
}

// Palettes for what is left without the outliers, and these beside them.
QuantizedTensor dense_and_sparse(const std::string& name, const Matrix<float>& w, Matrix<float> weights,
                                 const TensorSettings& settings, const WeightStatistics& statistics,
                                 WeightParts& made) {
  const bool by_saving = settings.outliers_saving > 0.0;
  SparseValues sparse = values_at(
      by_saving ? find_outliers(w, saved_errors(name, w, weights, settings, statistics), settings.outliers_saving, 0.0)
                : find_outliers(w, statistics.fisher, settings.outliers_sensitive, settings.outliers_large),
      w);
  Matrix<float> dense = w;
  if (weights.size() == 0) {
    weights = Matrix<float>(w.rows(), w.cols());
    std::fill(weights.values().begin(), weights.values().end(), 1.0f);
  }
  mask_outliers(sparse.places, dense);
  mask_outliers(sparse.places, weights);
  ScaledPalettization fitted = fit_palettes(dense, weights, settings);
  made.optimality_gap = fitted.optimality_gap;
  if (settings.solver != Solver::kNearest)
    made.solver = solve_palette_codes(w, statistics.hessian, statistics.output_hessian, settings,
                                      palette_dtype(settings), sparse, fitted);
  for (std::size_t i = 0; i < w.rows(); ++i)
    for (auto at = static_cast<std::size_t>(sparse.places.rows[i]);
         at < static_cast<std::size_t>(sparse.places.rows[i + 1]); ++at)
      dense(i, static_cast<std::size_t>(sparse.places.columns[at])) = sparse.values[at];
  return with_outliers(stored(name, w, settings, fitted), dense, sparse.places.rows, sparse.places.columns);
}

QuantizedTensor windowed(const std::string& name, const Matrix<float>& w, MatrixView<const float> weights,
                         const TensorSettings& settings, const WeightStatistics& statistics, WeightParts& made) {
  WindowedPaletteOptions options{.bits = settings.bits,
                                 .window_bits = settings.window_bits,
                                 .palette_dtype = palette_dtype(settings),
                                 .joint_iterations = settings.joint_iterations,
                                 .seed = settings.seed};
  if (settings.scaling != Scaling::kNone)
    options.scale = settings.scaling == Scaling::kAbsmax ? RowScale::kAbsmax : RowScale::kStd;
  WindowedWeight weight = palettize_windows(w, weights, options).weight;
  if (settings.solver != Solver::kNearest)
    made.solver =
        solve_window_codes(w, statistics.hessian, statistics.output_hessian, settings, palette_dtype(settings), weight);
  return make_windowed_tensor(name, stored_tensor(settings, w.rows(), w.cols()).spec, weight.codes,
                              weight.palettes.values(), palette_dtype(settings), weight.scales);
}

Matrix<float> same_for_all_rows(std::size_t rows, const std::vector<double>& per_input) {
  const Matrix<float> row = kmeans_weights({per_input.data(), 1, per_input.size()});
  Matrix<float> weights(rows, per_input.size());
  for (std::size_t i = 0; i < rows; ++i) std::copy(row.data(), row.data() + row.size(), weights.row(i).begin());
  return weights;
}

// What is below 0, by rounding, is 0, as to solvers.
std::vector<double> diagonal(const Matrix<float>& h, float added) {
  std::vector<double> values(h.rows());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(std::max(h(i, i), 0.0f) + added);
  return values;
}

Matrix<float> hessian_weights(std::size_t rows, const WeightStatistics& statistics) {
  Matrix<float> weights = same_for_all_rows(rows, diagonal(statistics.hessian, 0.0f));
  if (statistics.output_hessian.size() == 0) return weights;
  NIBBLE_REQUIRE(statistics.output_hessian.rows() == rows, InvalidArgument,
                 "weighting: hessian: a Hessian of {} outputs for {} rows", statistics.output_hessian.rows(), rows);
  const std::vector<double> outputs = diagonal(statistics.output_hessian, kOutputDamping);
  const Matrix<float> of_rows = kmeans_weights({outputs.data(), 1, rows});
  for (std::size_t i = 0; i < rows; ++i)
    for (float& weight : weights.row(i))
      weight = std::max(weight * of_rows(0, i), static_cast<float>(kSensitivityFloor));
  return weights;
}

}  // namespace

Matrix<float> sensitivity_weights(const Matrix<float>& w, Weighting weighting, const WeightStatistics& statistics) {
  switch (weighting) {
    case Weighting::kFisher:
      return kmeans_weights(statistics.fisher);
    case Weighting::kSecondMoment:
      return same_for_all_rows(w.rows(), statistics.second_moment);
    case Weighting::kMagnitude:
      return same_for_all_rows(w.rows(), statistics.magnitude);
    case Weighting::kHessian:
      return hessian_weights(w.rows(), statistics);
    case Weighting::kNone:
      break;
  }
  return {};
}

QuantizedTensor palette_tensor(const std::string& name, const Matrix<float>& w, const TensorSettings& settings,
                               const WeightStatistics& statistics, WeightParts& made) {
  Matrix<float> weights = sensitivity_weights(w, settings.weighting, statistics);
  if (settings.keeps_outliers()) return dense_and_sparse(name, w, std::move(weights), settings, statistics, made);
  const MatrixView<const float> given = weights.size() == 0 ? MatrixView<const float>() : weights.view();
  if (settings.window_bits != 0) return windowed(name, w, given, settings, statistics, made);
  ScaledPalettization fitted = fit_palettes(w, given, settings);
  made.optimality_gap = fitted.optimality_gap;
  made.fitted_cost = fitted.fitted_cost;
  SparseValues none;
  if (settings.solver != Solver::kNearest)
    made.solver = solve_palette_codes(w, statistics.hessian, statistics.output_hessian, settings,
                                      palette_dtype(settings), none, fitted);
  return stored(name, w, settings, fitted);
}

SharedPalette shared_palette(const WeightedValues& values, const TensorSettings& settings) {
  return fit_shared_palette(values, palettize_options(settings));
}

QuantizedTensor tensor_of_palette(const std::string& name, const Matrix<float>& w, const TensorSettings& settings,
                                  std::span<const float> palette) {
  std::vector<std::uint8_t> codes(w.size());
  assign_codes(w.values(), palette, codes);
  return make_palette_tensor(name, stored_tensor(settings, w.rows(), w.cols()).spec, codes, palette,
                             palette_dtype(settings), {});
}

}  // namespace nibble::quant

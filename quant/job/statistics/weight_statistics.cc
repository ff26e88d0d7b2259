#include "quant/job/statistics/weight_statistics.h"

#include <algorithm>
#include <span>
#include <type_traits>
#include <utility>

#include "calib/stats/derived.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/rounded.h"
#include "quant/job/statistics/hessian_choice.h"
#include "quant/job/statistics/input_map.h"
#include "quant/store/quantization_config.h"
#include "quant/tensor/row_slices.h"
#include "quant/tensor/usable_output_hessian.h"

namespace nibble::quant {
namespace {

using calib::StatisticSet;

bool needs_activations(const TensorSettings& settings) {
  return settings.shifting || settings.weighting == Weighting::kSecondMoment ||
         settings.weighting == Weighting::kMagnitude;
}

// One value per input, divided by s, or by s².
template <class T>
void divide(const std::vector<float>& s, std::span<T> values, bool squared) {
  for (std::size_t j = 0; j < values.size(); ++j) {
    const double scale = static_cast<double>(s[j]);
    values[j] = static_cast<T>(static_cast<double>(values[j]) / (squared ? scale * scale : scale));
  }
}

// The statistics of x/s, which is what a weight W · diag(s) is given.
void divide_inputs(const std::vector<float>& s, WeightStatistics& statistics) {
  divide(s, std::span(statistics.second_moment), true);
  divide(s, std::span(statistics.magnitude), false);
  divide(s, std::span(statistics.mean_input), false);
  for (std::size_t i = 0; i < statistics.fisher.rows(); ++i) divide(s, statistics.fisher.row(i), true);
  divide_products(s, statistics.hessian);
}

// About what the parts of a weight take: its codes, and a float16 with a zero point for every block.
std::uint64_t stored_bytes(const TensorSettings& settings, std::uint64_t rows, std::uint64_t cols) {
  if (!settings.coded()) return rows * cols * 2;
  const TensorSpec spec = stored_tensor(settings, rows, cols).spec;
  const std::uint64_t per_row = spec.coding == Coding::kPalette ? spec.entries() * 4 : spec.blocks() * 3;
  return rows * (spec.row_bytes() + per_row);
}

// An expert that no token chose has none.
bool seen(const QuantizeItem& item, const Calibration& calibration, const StatisticSet& what) {
  return calibration.holds(item.layer.module, what) && calibration.tokens(item.layer.module, what) > 0;
}

// What errors are reported in, even where the settings need none.
void add_error_statistics(const QuantizeItem& item, const Calibration& calibration, WeightStatistics& statistics) {
  if (seen(item, calibration, {.fisher = true}))
    statistics.fisher = calib::mean_fisher(calibration.read(item, {.fisher = true}));
  const StatisticSet for_hessian = hessian_statistics(item.settings);
  if (!seen(item, calibration, for_hessian)) return;
  const auto layer = calibration.read(item, for_hessian);
  const calib::HessianKind kind = hessian_kind(item.settings);
  // Codes leave the mean error under their Hessian to the bias: it is corrected by that mean, whatever text another
  // file's means are of.
  const bool decides_codes = item.settings.solver != Solver::kNearest || item.settings.search == ScaleSearch::kHessian;
  if (calib::is_centred(kind) && decides_codes) statistics.mean_input = calib::correction_mean(layer, kind);
  statistics.hessian = rounded(calib::hessian(layer, kind));
  if (!item.input_map) return;
  GuidedProducts guided{std::move(statistics.hessian), calib::correction_mean(layer, kind), calib::is_centred(kind),
                        layer.sum_s / static_cast<double>(layer.tokens)};
  carry(*item.input_map, guided);
  statistics.hessian = std::move(guided.products);
  if (guided.about_mean) statistics.mean_input = std::move(guided.mean);
}

}  // namespace

WeightStatistics error_statistics_for(const QuantizeItem& item, const Calibration& calibration) {
  WeightStatistics statistics;
  if (!item.settings.coded()) return statistics;
  add_error_statistics(item, calibration, statistics);
  if (item.input_scales) divide_inputs(*item.input_scales, statistics);
  return statistics;
}

void divide_products(const std::vector<float>& s, Matrix<float>& products) {
  for (std::size_t i = 0; i < products.rows(); ++i) {
    divide(s, products.row(i), false);
    for (float& value : products.row(i)) value /= s[i];
  }
}

WeightStatistics statistics_for(const QuantizeItem& item, const Calibration& calibration) {
  const TensorSettings& settings = item.settings;
  WeightStatistics statistics;
  if (!settings.coded()) return statistics;
  if (needs_activations(settings)) {
    const auto layer = calibration.read(item, {.activations = true});
    statistics.second_moment = calib::second_moment(layer);
    statistics.magnitude = calib::mean_magnitude(layer);
    statistics.mean_input = calib::mean_input(layer);
  }
  add_error_statistics(item, calibration, statistics);
  if (settings.output_hessian && seen(item, calibration, {.output_hessian = true}))
    statistics.output_hessian =
        usable_output_hessian(calib::output_hessian(calibration.read(item, {.output_hessian = true})));
  if (item.input_scales) divide_inputs(*item.input_scales, statistics);
  return statistics;
}

std::uint64_t work_bytes(const QuantizeItem& item, const StatisticSet& held) {
  constexpr std::uint64_t kWeight = 5, kPaletteWeights = 4, kScaled = 9, kFisherRead = 4, kFisher = 8, kHessian = 16,
                          kSolver = 10, kVectors = 8, kOutliers = 17, kWindows = 20, kBlockPalette = 12,
                          kOutputHessian = 24, kCoupled = 20;
  const TensorSettings& settings = item.settings;
  const std::uint64_t in = item.source->cols(), rows = item.source->rows();
  const std::uint64_t slice = rows_per_slice(settings, rows, in, held.fisher);
  const std::uint64_t in_work = std::min(rows, slice * thread_count()) * in;
  std::uint64_t bytes = in_work * kWeight;
  if (slice < rows) bytes += stored_bytes(settings, rows, in);
  if (settings.weighting != Weighting::kNone) bytes += in_work * kPaletteWeights;
  if (settings.scaling != Scaling::kNone) bytes += item.weights() * kScaled;
  if (held.fisher) bytes += item.layer.out * in * kFisherRead + item.weights() * kFisher;
  if (settings.has_palette() && settings.window_bits != 0) bytes += item.weights() * kWindows;
  if (settings.learns_block_palette()) bytes += in_work * kBlockPalette;
  if (settings.cluster_dim > 1) bytes += item.weights() * kVectors;
  if (settings.keeps_outliers()) bytes += item.weights() * kOutliers;
  if (settings.solver != Solver::kNearest) bytes += item.weights() * kSolver;
  if (held.includes(hessian_statistics(settings))) bytes += in * in * kHessian;
  if (settings.output_hessian) bytes += rows * rows * kOutputHessian + item.weights() * kCoupled;
  return bytes;
}

std::uint64_t work_bytes(const QuantizeItem& item, const Calibration& calibration) {
  StatisticSet held{.fisher = calibration.holds(item.layer.module, {.fisher = true})};
  const StatisticSet for_hessian = hessian_statistics(item.settings);
  if (calibration.holds(item.layer.module, for_hessian)) held = either(held, for_hessian);
  return work_bytes(item, held);
}

}  // namespace nibble::quant

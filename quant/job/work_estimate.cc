#include "quant/job/work_estimate.h"

#include <algorithm>

#include "quant/job/budget/budget.h"
#include "quant/job/network/drifted_item.h"
#include "quant/job/network/input_scaling.h"
#include "quant/job/network/tuning.h"
#include "quant/job/recipe_needs.h"
#include "quant/job/statistics/weight_statistics.h"

namespace nibble::quant {
namespace {

double nearest_nanoseconds(const TensorSettings& settings) {
  if (settings.window_bits > 0) return settings.window_bits > 6 ? 7000.0 : 3000.0;
  if (settings.has_block_palette()) return 70.0;
  if (!settings.has_palette()) return 20.0;
  if (settings.scaling != Scaling::kNone) return 140.0;  // palettes and scales in turns
  return settings.granularity == Granularity::kTensor ? 40.0 : 100.0;
}

// Of windows from the first codes on, which are found under the Hessian too.
double descent_nanoseconds(const TensorSettings& settings) {
  if (settings.window_bits > 0) return settings.window_bits > 6 ? 2500.0 : 1700.0;
  return settings.has_palette() ? 1000.0 : 400.0;
}

double seconds_of(const TensorSettings& settings, std::size_t rows, std::size_t cols) {
  constexpr double kNano = 1e-9, kSmallPalette = 16.0, kPerLargePalette = 0.2;
  const double weights = static_cast<double>(rows) * static_cast<double>(cols);
  if (!settings.coded()) return 5.0 * kNano * weights;
  const double nearest = nearest_nanoseconds(settings) * kNano * weights;
  if (settings.solver == Solver::kNearest) return nearest;
  // What a weight's error changes grows with the inputs.
  const double inputs = 0.5 + static_cast<double>(cols) / 1000.0;
  if (settings.solver == Solver::kGptq) return nearest + 30.0 * inputs * kNano * weights;
  double seconds =
      (settings.window_bits > 0 ? 0.0 : nearest) + descent_nanoseconds(settings) * inputs * kNano * weights;
  // Large palettes are solved for in steps, whatever the tensor's size.
  const double values = static_cast<double>(std::size_t{1} << settings.code_bits());
  if (settings.window_bits == 0 && settings.has_palette() && values > kSmallPalette)
    seconds += kPerLargePalette * values / 64.0;
  return seconds;
}

// `input_scaling: awq` tries kInputScalingSteps scales by rounding to nearest, and the best of them by the solver.
double seconds_of_input_scaling(const QuantizeItem& item, TensorSettings settings) {
  if (settings.input_scaling == InputScaling::kNone || !is_fed_by_norm(item)) return 0.0;
  const std::size_t rows = item.source->rows(), cols = item.source->cols();
  const double solved = settings.solver == Solver::kNearest ? 0.0 : 2.0 * seconds_of(settings, rows, cols);
  settings.solver = Solver::kNearest;
  return static_cast<double>(kInputScalingSteps) * seconds_of(settings, rows, cols) + solved;
}

}  // namespace

WorkEstimate estimate_work(const Plan& plan, const Recipe& recipe, TextWindows windows,
                           const calib::StatisticSet& statistics) {
  // quantize_sequentially(); a probe begins at its tensor's block.
  constexpr double kSequential = 2.5, kCorrected = 5.0, kShiftedAlone = 1.0, kProbe = 0.5;
  WorkEstimate work;
  bool sequential = false, corrected = false, shifted_alone = false;
  const bool head = needs_head(plan);
  for (const QuantizeItem& item : plan.items) {
    const std::vector<TensorSettings> ways =
        recipe.budget() ? budget_ways(item, recipe) : std::vector<TensorSettings>{item.settings};
    const bool collected = item.identity.block_linear || (head && item.layer.role == model::Role::kHead);
    QuantizeItem in_one_way = item;
    for (const TensorSettings& way : ways) {
      in_one_way.settings = way;
      work.thread_seconds += seconds_of(way, item.source->rows(), item.source->cols());
      work.largest_weight_bytes =
          std::max(work.largest_weight_bytes, work_bytes(in_one_way, collected ? statistics : calib::StatisticSet{}));
    }
    work.thread_seconds += seconds_of_input_scaling(item, item.settings);
    sequential = sequential || item.settings.sequential;
    corrected = corrected || is_drift_corrected(item);
    shifted_alone = shifted_alone || is_shifted_alone(item);
  }
  if (sequential)
    work.window_passes += ((corrected ? kCorrected : kSequential) + (shifted_alone ? kShiftedAlone : 0.0)) *
                          static_cast<double>(windows.statistics);
  if (recipe.budget())
    work.window_passes += kProbe * static_cast<double>(recipe.budget()->probe_windows * plan.items.size());
  if (recipe.tuning()) work.window_passes += static_cast<double>(tuning_work(*recipe.tuning(), windows.all).passes());
  return work;
}

}  // namespace nibble::quant

#include "quant/job/plan/work_estimate.h"

#include <algorithm>

namespace nibble::quant {
namespace {

double nearest_nanoseconds(const TensorSettings& settings) {
  if (settings.has_block_palette()) return 70.0;
  if (!settings.has_palette()) return 20.0;
  if (settings.scaling != Scaling::kNone) return 140.0;  // palettes and scales in turns
  return settings.granularity == Granularity::kTensor ? 40.0 : 100.0;
}

double descent_nanoseconds(const TensorSettings& settings) {
  if (settings.window_bits > 0) return settings.window_bits > 6 ? 2500.0 : 1700.0;
  return settings.has_palette() ? 1000.0 : 400.0;
}

double nanoseconds(const QuantizeItem& item) {
  const TensorSettings& settings = item.settings;
  if (!settings.coded()) return 5.0;
  const double nearest = nearest_nanoseconds(settings);
  if (settings.solver == Solver::kNearest) return nearest;
  // What a weight's error changes grows with the inputs.
  const double inputs = 0.5 + static_cast<double>(item.source->cols()) / 1000.0;
  return nearest + inputs * (settings.solver == Solver::kGptq ? 30.0 : descent_nanoseconds(settings));
}

// How often a weight of the blocks is quantized.
double ways(const Recipe& recipe) {
  const auto& budget = recipe.budget();
  if (!budget) return 1.0;
  return static_cast<double>(budget->bits.size() * std::max<std::size_t>(budget->granularity.size(), 1) *
                             std::max<std::size_t>(budget->window_bits.size(), 1));
}

double tuning_passes(const Tuning& tuning, double windows) {
  constexpr double kStep = 4.0, kHeldOutShare = 1.0 / 8.0;  // a step goes back too, and makes G
  const double all = tuning.windows > 0 ? static_cast<double>(tuning.windows + tuning.held_out) : windows;
  const double held_out = tuning.held_out > 0 ? static_cast<double>(tuning.held_out) : all * kHeldOutShare;
  const auto epochs = static_cast<double>(tuning.epochs);
  return all + (epochs + 1.0) * held_out + epochs * kStep * std::max(all - held_out, 0.0);
}

}  // namespace

WorkEstimate estimate_work(const Plan& plan, const Recipe& recipe, std::size_t windows) {
  constexpr double kSequential = 2.5, kProbe = 0.5;  // a probe begins at its tensor's block
  WorkEstimate work;
  bool sequential = false;
  for (const QuantizeItem& item : plan.items) {
    const double times = item.identity.block_linear ? ways(recipe) : 1.0;
    work.thread_seconds += 1e-9 * times * nanoseconds(item) * static_cast<double>(item.weights());
    sequential = sequential || item.settings.sequential;
  }
  const auto all = static_cast<double>(windows);
  if (sequential) work.window_passes += kSequential * all;
  if (recipe.budget())
    work.window_passes += kProbe * static_cast<double>(recipe.budget()->probe_windows * plan.items.size());
  if (recipe.tuning()) work.window_passes += tuning_passes(*recipe.tuning(), all);
  return work;
}

}  // namespace nibble::quant

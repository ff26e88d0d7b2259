#include "quant/job/statistics/rare_experts.h"

#include <algorithm>

namespace nibble::quant {

namespace {

constexpr std::uint64_t kJointRounds = 4;  // as in the presets that have them

}  // namespace

TensorSettings without_statistics(TensorSettings settings) {
  const TensorSettings plain;
  settings.weighting = plain.weighting;
  settings.weighting_scale = plain.weighting_scale;
  settings.shifting = plain.shifting;
  settings.solver = plain.solver;
  settings.hessian = plain.hessian;
  settings.output_hessian = plain.output_hessian;
  settings.codebook_iterations = plain.codebook_iterations;
  settings.sequential = plain.sequential;
  settings.drift_correction = plain.drift_correction;
  settings.outliers_sensitive = plain.outliers_sensitive;
  if (settings.search != ScaleSearch::kNone) settings.search = ScaleSearch::kError;
  // Presets leave them out where codes are solved for; here nothing else fits palettes and scales to each other.
  if (settings.window_bits != 0 && settings.scaling != Scaling::kNone)
    settings.joint_iterations = std::max(settings.joint_iterations, kJointRounds);
  return settings;
}

void drop_unshifted_biases(Plan& plan) {
  for (BiasItem& bias : plan.biases)
    std::erase_if(bias.weights, [&](std::size_t weight) { return !plan.items[weight].settings.shifting; });
  std::erase_if(plan.biases, [&](const BiasItem& bias) {
    if (!bias.weights.empty() || bias.original) return false;
    for (QuantizeItem& item : plan.items)
      if (item.layer.bias.tensor == bias.name) item.added_bits = 0;  // which were this bias's
    plan.parameters -= bias.size;
    return true;
  });
}

std::vector<RareExpert> set_rare_experts(Plan& plan, const Calibration& calibration, bool budget) {
  std::vector<RareExpert> rare;
  for (QuantizeItem& item : plan.items) {
    if (!item.layer.expert || !item.settings.coded()) continue;
    std::uint64_t least = item.layer.in;
    for (const calib::StatisticSet& what : statistics_needed(item.settings)) {
      const bool on_the_way = item.settings.sequential && kCollectedOnTheWay.includes(what);
      if (on_the_way && !budget) continue;
      if (on_the_way && !calibration.holds(item.layer.module, what)) continue;  // the budget asks for it by name
      least = std::min(least, calibration.tokens(item.layer.module, what));
    }
    if (!is_rare(least, item.layer.in)) continue;
    rare.push_back({item.identity.name, least, item.layer.in});
    item.settings = without_statistics(item.settings);
    item.rare_expert = true;
  }
  drop_unshifted_biases(plan);
  return rare;
}

}  // namespace nibble::quant

#include "quant/job/recipe_needs.h"

#include <algorithm>

#include "quant/job/network/input_scaling.h"
#include "quant/job/statistics/calibration.h"
#include "quant/job/statistics/hessian_choice.h"
#include "quant/job/statistics/predicted_loss.h"

namespace nibble::quant {

using calib::StatisticSet;

StatisticSet statistics_needed(const Plan& plan, const Recipe& recipe) {
  StatisticSet all;
  const bool budget = recipe.budget().has_value();  // its ways are compared before anything is collected on the way
  const auto add = [&](const QuantizeItem& item, const StatisticSet& what) {
    if (item.settings.sequential && item.identity.block_linear && !budget && kCollectedOnTheWay.includes(what)) return;
    all = either(all, what);
  };
  for (const QuantizeItem& item : plan.items)
    for (const StatisticSet& what : statistics_needed(item.settings)) add(item, what);
  Plan scaled = plan;
  for (const InputGroup& group : input_groups(scaled, recipe)) {
    for (const std::size_t index : group.items) {
      add(plan.items[index], {.activations = true});
      add(plan.items[index], hessian_statistics(plan.items[index].settings));
    }
  }
  if (budget) all = either(all, statistics_of(least_loss_estimate(recipe.budget()->estimate, plan.items)));
  return all;
}

bool needs_head(const Plan& plan) {
  return std::any_of(plan.items.begin(), plan.items.end(), [](const QuantizeItem& item) {
    return item.layer.role == model::Role::kHead && !statistics_needed(item.settings).empty();
  });
}

bool needs_text(const Plan& plan, const Recipe& recipe) {
  const bool probes = recipe.budget() && recipe.budget()->probe_windows > 0;
  return recipe.tuning() || probes || std::any_of(plan.items.begin(), plan.items.end(), [](const QuantizeItem& item) {
           return item.settings.sequential;
         });
}

}  // namespace nibble::quant

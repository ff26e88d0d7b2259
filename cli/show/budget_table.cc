#include "cli/show/budget_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cli/terminal/table.h"

namespace nibble::cli {
namespace {

// All layouts, in order of first appearance.
std::vector<std::string> layouts_of(const quant::BudgetResult& budget) {
  std::vector<std::string> layouts;
  for (const auto& tensor : budget.tensors)
    for (const auto& candidate : tensor.candidates)
      if (std::find(layouts.begin(), layouts.end(), candidate.layout) == layouts.end())
        layouts.push_back(candidate.layout);
  return layouts;
}

// Most are palettes: that need not be said in every column.
std::string short_title(const std::string& layout) {
  constexpr std::string_view kPalette = "palette ";
  return layout.starts_with(kPalette) ? layout.substr(kPalette.size()) : layout;
}

// How far predictions were from what was measured, by which they are corrected.
std::string probes_text(const quant::BudgetResult& budget) {
  std::vector<double> ratios;
  for (const auto& tensor : budget.tensors)
    if (tensor.probe && tensor.probe->predicted_loss > 0.0)
      ratios.push_back(tensor.probe->divergence / tensor.probe->predicted_loss);
  if (ratios.empty()) return "nothing to measure: no tensor has several ways";
  std::sort(ratios.begin(), ratios.end());
  return fmt::format(
      "divergence of single tensors is {:.2f} to {:.2f} times the prediction, in the middle {:.2f} ({} windows)",
      ratios.front(), ratios.back(), ratios[ratios.size() / 2], budget.probe_windows);
}

}  // namespace

std::string budget_text(const quant::BudgetResult& budget) {
  const std::vector<std::string> layouts = layouts_of(budget);
  std::vector<Column> columns{{"tensor", Align::kLeft}};
  for (const std::string& layout : layouts) columns.push_back({short_title(layout)});
  Table table(columns);
  for (const auto& tensor : budget.tensors) {
    std::vector<std::string> cells(layouts.size() + 1);
    cells[0] = tensor.name;
    for (const auto& candidate : tensor.candidates) {
      const auto column = std::find(layouts.begin(), layouts.end(), candidate.layout) - layouts.begin();
      cells[static_cast<std::size_t>(column) + 1] = fmt::format("{}{:.3f} {:.1e}", candidate.chosen ? "* " : "",
                                                                candidate.bits_per_weight, candidate.predicted_loss);
    }
    table.add_row(std::move(cells));
  }
  const double gap = budget.predicted_loss - budget.lower_bound;
  std::vector<std::pair<std::string, std::string>> facts{
      {"predicted loss", fmt::format("{:.4e} nats per token, by {}", budget.predicted_loss, budget.loss_estimate)},
      {"optimality", budget.exact ? std::string("no choice within the budget is predicted to be better")
                                  : fmt::format("at most {:.1e} above the best choice", gap)}};
  if (budget.probe_windows > 0) facts.insert(facts.begin(), {"probes", probes_text(budget)});
  return fmt::format("budget of {} bits per weight: bits per weight and predicted loss (nats per token), * chosen\n",
                     budget.limit_bits_per_weight) +
         table.text() + "\n" + aligned_facts(facts);
}

}  // namespace nibble::cli

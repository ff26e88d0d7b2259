#include "eval/report/neighbours.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "core/text/json.h"
#include "core/weighted_mean.h"
#include "eval/report/ranking.h"

namespace nibble::eval {
namespace {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2.0;
}

std::vector<double> differences(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) return {};
  std::vector<double> found(a.begin(), a.end());
  for (std::size_t i = 0; i < b.size(); ++i) found[i] -= b[i];
  return found;
}

// Pooled, or of an evaluation that names several files.
bool of_several_texts(const Entry& entry) {
  const auto evaluation = fact_json(entry.record.configuration, "evaluation");
  return entry.record.id.empty() || (evaluation.is_object() && evaluation.contains("text_ends"));
}

}  // namespace

std::optional<double> error_of_runs(std::span<const double> windows, std::span<const std::uint64_t> weights) {
  const std::size_t runs = windows.size() / kRunWindows;
  if (runs < kFewestRuns || (!weights.empty() && weights.size() != windows.size())) return std::nullopt;
  std::vector<double> means;
  std::vector<std::uint64_t> weights_of_runs;
  for (std::size_t run = 0; run < runs; ++run) {
    const std::size_t first = run * kRunWindows;
    const auto of_run = weights.empty() ? weights : weights.subspan(first, kRunWindows);
    means.push_back(weighted_mean(windows.subspan(first, kRunWindows), of_run).mean);
    if (weights.empty()) continue;
    weights_of_runs.push_back(0);
    for (const std::uint64_t weight : of_run) weights_of_runs.back() += weight;
  }
  const auto in_runs = windows.first(runs * kRunWindows);
  const double apart = weighted_mean(in_runs, weights.empty() ? weights : weights.first(in_runs.size())).standard_error;
  const double ratio = weighted_mean(means, weights_of_runs).standard_error / apart;
  return apart > 0.0 && std::isfinite(ratio) ? std::optional(ratio) : std::nullopt;
}

std::string neighbours_text(const Entries& entries) {
  const Ranking ranking = ranking_of(entries);
  Entries quantized;
  std::ranges::copy_if(entries, std::back_inserter(quantized), [&](const Entry* entry) {
    return !is_float_model(*entry) && std::isfinite(ranking.value(*entry));
  });
  // Of several texts together the texts' own differences would be taken for likeness of neighbours.
  if (quantized.empty() || of_several_texts(*quantized.front())) return "";
  const Entry& lowest = **std::ranges::min_element(quantized, {}, [&](const Entry* e) { return ranking.value(*e); });
  std::vector<double> of_figures, of_differences;
  for (const Entry* entry : quantized) {
    const auto windows = ranking.windows(*entry);
    if (const auto ratio = error_of_runs(windows, ranking.weights(*entry, *entry))) of_figures.push_back(*ratio);
    if (entry == &lowest) continue;
    const auto over = differences(windows, ranking.windows(lowest));
    if (const auto ratio = error_of_runs(over, ranking.weights(*entry, lowest))) of_differences.push_back(*ratio);
  }
  if (of_figures.empty()) return "";
  std::string text =
      fmt::format(" Windows of a text are neighbours: by means of {} in a row errors are {:.2f} times the printed ones",
                  kRunWindows, median(of_figures));
  if (!of_differences.empty())
    text += fmt::format(", those of differences from the lowest {:.2f} times", median(of_differences));
  return text + (of_figures.size() > 1 ? fmt::format(" (medians of {} cells).", of_figures.size()) : ".");
}

}  // namespace nibble::eval

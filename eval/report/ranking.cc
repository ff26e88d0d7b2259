#include "eval/report/ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/text/estimate.h"

namespace nibble::eval {
namespace {

constexpr int kMillinatDecimals = 3;

std::string perplexity_text(const CellMeasures& measures) {
  if (!std::isfinite(measures.perplexity)) return "not finite";
  std::string text = measures.perplexity < 1e5 ? fmt::format("{:.3f}", measures.perplexity)
                                               : fmt::format("{:.4g}", measures.perplexity);
  if (measures.perplexity_stderr) text += fmt::format(" ± {:.2f}", *measures.perplexity_stderr);
  return text;
}

std::string divergence_text(const DivergenceMeasures& divergence) {
  if (!std::isfinite(divergence.nats_per_token)) return "not finite";
  return estimate_text(divergence.nats_per_token * 1e3, or_nan(divergence.stderr_nats) * 1e3, kMillinatDecimals);
}

}  // namespace

std::string millinat_difference(const PairedDifference& difference) {
  return signed_estimate_text(difference.mean * 1e3, difference.standard_error * 1e3, kMillinatDecimals);
}

bool is_float_model(const Entry& entry) { return fact(entry.record.configuration, "recipe") == "null"; }

double Ranking::value(const Entry& entry) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const CellMeasures& measures = *entry.record.measures;
  double value = measures.perplexity;
  if (by_divergence)
    value = measures.divergence ? measures.divergence->nats_per_token * 1e3 : is_float_model(entry) ? 0.0 : kInfinity;
  return std::isfinite(value) ? value : kInfinity;
}

std::string Ranking::text(const Entry& entry) const {
  const CellMeasures& measures = *entry.record.measures;
  if (!by_divergence) return perplexity_text(measures);
  return measures.divergence ? divergence_text(*measures.divergence) : is_float_model(entry) ? "0" : "";
}

std::span<const double> Ranking::windows(const Entry& entry) const {
  const CellMeasures& measures = *entry.record.measures;
  if (!by_divergence) return measures.window_nll;
  return measures.divergence ? std::span<const double>(measures.divergence->window_nats) : std::span<const double>();
}

std::span<const std::uint64_t> Ranking::weights(const Entry& a, const Entry& b) const {
  return by_divergence ? divergence_weights(a.record, b.record) : loss_weights(a.record, b.record);
}

std::optional<PairedDifference> Ranking::difference(const Entry& a, const Entry& b) const {
  return paired_difference(windows(a), windows(b), weights(a, b));
}

Marks marks_of(const Entries& entries, const std::function<double(const Entry&)>& value,
               const std::function<std::optional<PairedDifference>(const Entry&, const Entry&)>& difference) {
  std::map<std::string, Entries> groups;
  for (const Entry* entry : entries)
    if (!is_float_model(*entry) && std::isfinite(value(*entry))) groups[entry->comparable_key()].push_back(entry);
  Marks marks;
  for (const auto& [key, group] : groups) {
    const Entry* lowest = *std::min_element(group.begin(), group.end(),
                                            [&](const Entry* a, const Entry* b) { return value(*a) < value(*b); });
    std::size_t unknown = 0;
    bool below = false;
    Entries undecided;
    for (const Entry* entry : group) {
      marks.lowest[entry] = lowest;
      if (entry == lowest) continue;
      const auto found = difference(*entry, *lowest);
      if (!found) {
        ++unknown;
      } else if (is_undecided(*found)) {
        undecided.push_back(entry);
      } else if (found->mean < 0.0) {
        below = true;  // where both were measured: the lowest is that by what one of them lacks
      }
    }
    if (below) {
      marks.by_chance.insert(lowest);
    } else if (!undecided.empty()) {
      marks.undecided.insert(undecided.begin(), undecided.end());
      marks.undecided.insert(lowest);
    } else if (unknown == 0) {
      marks.best.insert(lowest);
    }
  }
  return marks;
}

Ranking ranking_of(const Entries& entries) {
  bool some = false;
  for (const Entry* entry : entries) {
    if (is_float_model(*entry)) continue;
    some = true;
    if (!entry->record.measures->divergence) return {.by_divergence = false};
  }
  return {.by_divergence = some};
}

}  // namespace nibble::eval

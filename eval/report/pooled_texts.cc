#include "eval/report/pooled_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "core/files/file_identity.h"
#include "core/text/json.h"
#include "core/weighted_mean.h"
#include "eval/report/evaluation_way.h"

namespace nibble::eval {
namespace {

using OrderedJson = nlohmann::ordered_json;
using Texts = std::map<std::string_view, const Entry*>;  // of one cell, by the evaluation's name

OrderedJson way_of(const Entry& entry) {
  const OrderedJson evaluation = OrderedJson::parse(fact(entry.record.configuration, "evaluation"), nullptr, false);
  OrderedJson way = OrderedJson::object();
  for (const std::string_view key : kEvaluationWay)
    if (evaluation.is_object() && evaluation.contains(key)) way[std::string(key)] = evaluation[std::string(key)];
  return way;
}

// Scored in each window, of texts whose windows need not be alike.
std::vector<std::uint64_t> tokens_of_windows(const CellMeasures& measures) {
  if (!measures.window_tokens.empty()) return measures.window_tokens;
  const std::size_t windows = measures.window_nll.size();
  return std::vector<std::uint64_t>(windows, windows == 0 ? 0 : measures.tokens_scored / windows);
}

void append_windows(std::vector<double>& all, const std::vector<double>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

DivergenceMeasures pooled_divergence(const Texts& texts, std::span<const std::uint64_t> tokens) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  DivergenceMeasures pooled;
  pooled.median = pooled.percentile_99 = kNaN;
  double agreeing = 0.0, scored = 0.0;
  for (const auto& [name, entry] : texts) {
    const DivergenceMeasures& one = *entry->record.measures->divergence;
    append_windows(pooled.window_nats, one.window_nats);
    pooled.largest = std::max(pooled.largest, one.largest);
    const auto count = static_cast<double>(entry->record.measures->tokens_scored);
    agreeing += count * one.top1_agreement;
    scored += count;
  }
  pooled.top1_agreement = agreeing / scored;
  const WeightedMean mean = weighted_mean(pooled.window_nats, tokens);
  pooled.nats_per_token = mean.mean;
  pooled.stderr_nats = if_finite(mean.standard_error);
  return pooled;
}

CellMeasures pooled_measures(const Texts& texts, bool by_tokens) {
  const CellMeasures& first = *texts.begin()->second->record.measures;
  CellMeasures pooled;
  pooled.bits_per_weight = first.bits_per_weight;
  pooled.model_bits_per_weight = first.model_bits_per_weight;
  pooled.model_bytes = first.model_bytes;
  bool diverges = true;
  for (const auto& [name, entry] : texts) {
    const CellMeasures& one = *entry->record.measures;
    append_windows(pooled.window_nll, one.window_nll);
    const auto tokens = tokens_of_windows(one);
    pooled.window_tokens.insert(pooled.window_tokens.end(), tokens.begin(), tokens.end());
    pooled.tokens_scored += one.tokens_scored;
    diverges = diverges && one.divergence && one.divergence->window_nats.size() == one.window_nll.size();
  }
  const std::set<std::uint64_t> counts(pooled.window_tokens.begin(), pooled.window_tokens.end());
  if (counts.size() < 2) pooled.window_tokens.clear();
  const std::span<const std::uint64_t> tokens = pooled.window_tokens;
  const WeightedMean loss = weighted_mean(pooled.window_nll, by_tokens ? tokens : std::span<const std::uint64_t>());
  pooled.nll_nats_per_token = loss.mean;
  pooled.perplexity = std::exp(loss.mean);
  pooled.perplexity_stderr = if_finite(pooled.perplexity * loss.standard_error);
  if (diverges) pooled.divergence = pooled_divergence(texts, tokens);
  return pooled;
}

Entry pooled_entry(const Texts& texts) {
  const Entry& first = *texts.begin()->second;
  OrderedJson evaluation = way_of(first);
  for (const auto& [name, entry] : texts) evaluation["texts"].push_back(scored_text(entry->record));
  Entry pooled;
  pooled.record = {.id = {},
                   .labels = first.record.labels,
                   .configuration = first.record.configuration,
                   .error = {},
                   .measures = pooled_measures(texts, first.setting("average") == "tokens"),
                   .environment = first.record.environment,
                   .sources = {},
                   .command = {},
                   .timings = {},
                   .speeds = {}};
  set_fact(pooled.record.labels, "evaluation",
           fmt::format("{}, {} texts together", first.setting("use"), texts.size()));
  set_fact(pooled.record.configuration, "evaluation",
           evaluation.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
  pooled.settings = settings_of(pooled.record);
  set_fact(pooled.settings, "model", first.setting("model"));
  return pooled;
}

// As file_identity() has them.
std::vector<std::string> files_of(const Entry& entry) {
  std::vector<std::string> files;
  const auto source = fact_json(entry.record.sources, "evaluation");
  for (const char* key : {"text", "tokens"})
    if (source.is_object() && source.contains(key) && source[key].is_array())
      for (const auto& file : source[key])
        if (file.is_string()) files.push_back(file_identity(file.get<std::string>()));
  return files;
}

// Whether two texts of a cell have windows in common: then they are no independent measurements.
bool overlap(const Entry& a, const Entry& b) {
  const std::vector<double>&left = a.record.measures->window_nll, &right = b.record.measures->window_nll;
  if (!left.empty() && !right.empty() && left[0] == right[0]) return true;  // the same beginning
  const std::vector<std::string> files = files_of(b);
  return std::ranges::any_of(files_of(a), [&](const std::string& file) { return std::ranges::count(files, file) > 0; });
}

bool any_overlap(const Texts& texts) {
  for (auto a = texts.begin(); a != texts.end(); ++a)
    for (auto b = std::next(a); b != texts.end(); ++b)
      if (overlap(*a->second, *b->second)) return true;
  return false;
}

}  // namespace

void pool_texts(ReportInput& input) {
  using Place = std::tuple<std::string_view, std::string_view, std::string>;  // model, use, way
  std::map<Place, std::map<std::string_view, std::string>> texts_of;          // by name: what was scored
  std::map<Place, std::map<std::string, Texts>> cells_of;
  std::set<Place> ambiguous;  // two texts of one name
  for (const Entry& entry : input.entries) {
    const std::string_view use = entry.setting("use"), name = entry.setting("evaluation");
    if (use.empty()) continue;
    const Place place{fact(entry.record.configuration, "model"), use, way_of(entry).dump()};
    const std::string scored = scored_text(entry.record);
    if (texts_of[place].emplace(name, scored).first->second != scored) ambiguous.insert(place);
    const std::string cell =
        fmt::format("{}\n{}\n{}", entry.setting("recipe"), fact(entry.record.configuration, "recipe"),
                    fact(entry.record.configuration, "calibration"));
    cells_of[place][cell].emplace(name, &entry);
  }
  for (const auto& [place, cells] : cells_of) {
    const std::size_t count = texts_of[place].size();
    if (count < 2 || ambiguous.contains(place)) continue;
    if (std::ranges::any_of(cells, [](const auto& cell) { return any_overlap(cell.second); })) {
      const Entry& one = *cells.begin()->second.begin()->second;
      input.warnings.push_back(
          fmt::format("{}: texts for {} have windows in common, so nothing is said of them together",
                      one.setting("model"), one.setting("use")));
      continue;
    }
    for (const auto& [cell, texts] : cells)
      if (texts.size() == count) input.pooled.push_back(pooled_entry(texts));
  }
  std::stable_sort(input.pooled.begin(), input.pooled.end(), [](const Entry& a, const Entry& b) {
    return std::tuple(a.setting("model"), a.setting("evaluation")) <
           std::tuple(b.setting("model"), b.setting("evaluation"));
  });
}

}  // namespace nibble::eval

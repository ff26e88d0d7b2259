#include "cli/show/differences.h"

#include <fmt/format.h>

#include <cmath>

#include "cli/terminal/output.h"
#include "cli/terminal/table.h"
#include "core/text/estimate.h"
#include "core/text/excerpt.h"
#include "core/text/json.h"

namespace nibble::cli {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json settings_json(const std::vector<eval::SettingDiff>& settings) {
  Json list = Json::array();
  for (const auto& [name, a, b] : settings) list.push_back({{"name", name}, {"a", a}, {"b", b}});
  return list;
}

Json measures_json(const std::vector<eval::MeasureDiff>& measures) {
  Json list = Json::array();
  for (const eval::MeasureDiff& measure : measures)
    list.push_back({{"name", measure.name}, {"a", measure.a}, {"b", measure.b}, {"difference", measure.difference()}});
  return list;
}

Json layers_json(const std::vector<eval::LayerDiff>& layers) {
  Json list = Json::array();
  for (const eval::LayerDiff& layer : layers)
    list.push_back({{"name", layer.name},
                    {"bits_per_weight", {json_of(layer.bits_a), json_of(layer.bits_b)}},
                    {"relative_weight_error", {json_of(layer.error_a), json_of(layer.error_b)}},
                    {"output_error", {json_of(layer.output_a), json_of(layer.output_b)}},
                    {"fisher_error", {json_of(layer.fisher_a), json_of(layer.fisher_b)}},
                    {"between", json_of(layer.between)}});
  return list;
}

std::string number(const std::optional<double>& value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

std::string shortened(const std::string& text) {
  constexpr std::size_t kMost = 40;
  if (text.empty()) return "-";
  return text.size() <= kMost ? text : excerpt(text, kMost - 1);
}

void print_settings(const std::vector<eval::SettingDiff>& settings) {
  if (settings.empty()) return print("settings  the same\n");
  Table table({{"setting", Align::kLeft}, {"A", Align::kLeft}, {"B", Align::kLeft}});
  for (const auto& [name, a, b] : settings) table.add_row({name, shortened(a), shortened(b)});
  print(table.text());
}

void print_measures(const std::vector<eval::MeasureDiff>& measures) {
  if (measures.empty()) return;
  Table table({{"measure", Align::kLeft}, {"A"}, {"B"}, {"B - A"}, {"relative"}});
  for (const eval::MeasureDiff& measure : measures)
    table.add_row(
        {measure.name, fmt::format("{:.6g}", measure.a), fmt::format("{:.6g}", measure.b),
         fmt::format("{:+.4g}", measure.difference()),
         measure.a != 0.0 ? fmt::format("{:+.2f} %", 100.0 * measure.difference() / std::abs(measure.a)) : "-"});
  print("\n");
  print(table.text());
}

void print_layers(const std::vector<eval::LayerDiff>& layers) {
  if (layers.empty()) return;
  const bool between = layers.front().between.has_value();
  std::vector<Column> columns{
      {"layer", Align::kLeft}, {"bits A"}, {"bits B"}, {"error A"}, {"error B"}, {"Fisher A"}, {"Fisher B"}};
  if (between) columns.push_back({"A to B"});
  Table table(std::move(columns));
  for (const eval::LayerDiff& layer : layers) {
    std::vector<std::string> cells{layer.name,
                                   number(layer.bits_a, "{:.3f}"),
                                   number(layer.bits_b, "{:.3f}"),
                                   number(layer.error_a, "{:.5f}"),
                                   number(layer.error_b, "{:.5f}"),
                                   number(layer.fisher_a, "{:.2e}"),
                                   number(layer.fisher_b, "{:.2e}")};
    if (between) cells.push_back(number(layer.between, "{:.5f}"));
    table.add_row(std::move(cells));
  }
  print("\n");
  print(table.text());
}

void print_difference(const char* what, const char* of_what, const eval::PairedDifference& difference) {
  const int digits = decimals_beside(difference.standard_error, 6);
  print(fmt::format(
      "\n{} {:+.{}f} ± {:.{}f} {} (paired over {} windows){}\n", what, difference.mean, digits,
      difference.standard_error, digits, of_what, difference.pairs,
      eval::is_undecided(difference) ? fmt::format(": undecided, p = {:.2f} by Student's t", difference.p_value) : ""));
}

}  // namespace

void show_record_diff(const eval::RecordDiff& diff, bool json) {
  if (json) {
    Json object{{"a", diff.name_a},
                {"b", diff.name_b},
                {"settings", settings_json(diff.settings)},
                {"measures", measures_json(diff.measures)},
                {"paired", nullptr},
                {"paired_kl", nullptr},
                {"layers", layers_json(diff.layers)},
                {"same_measures", diff.same_measures}};
    const auto difference = [](const eval::PairedDifference& paired) {
      return Json{{"nats_per_token", paired.mean},
                  {"stderr", paired.standard_error},
                  {"p_value", paired.p_value},
                  {"windows", paired.pairs}};
    };
    if (diff.paired) object["paired"] = difference(*diff.paired);
    if (diff.paired_kl) object["paired_kl"] = difference(*diff.paired_kl);
    return print_json(object);
  }
  print(aligned_facts({{"A", diff.name_a}, {"B", diff.name_b}}) + "\n");
  print_settings(diff.settings);
  print_measures(diff.measures);
  if (diff.paired) print_difference("B loses", "nats per token to A", *diff.paired);
  if (diff.paired_kl)
    print_difference("B diverges by", "nats per token more than A from the float model", *diff.paired_kl);
  print_layers(diff.layers);
  if (diff.same_measures) print("\nthe measures are the same to the bit\n");
}

void show_checkpoint_diff(const eval::CheckpointDiff& diff, bool json) {
  if (json)
    return print_json({{"settings", settings_json(diff.settings)},
                       {"measures", measures_json(diff.measures)},
                       {"layers", layers_json(diff.layers)}});
  print_settings(diff.settings);
  print_measures(diff.measures);
  print_layers(diff.layers);
}

}  // namespace nibble::cli

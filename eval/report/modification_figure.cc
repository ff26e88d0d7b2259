#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>

#include "core/error.h"
#include "core/text/estimate.h"
#include "eval/report/evaluation_way.h"
#include "eval/report/figures.h"
#include "eval/report/ranking.h"
#include "eval/report/svg.h"
#include "eval/report/tables.h"
#include "quant/recipe/recipe_keys.h"

namespace nibble::eval {
namespace {

constexpr double kModificationWidth = 720, kModificationLeft = 220, kModificationRight = 690, kModificationRow = 26,
                 kModificationHead = 26, kModificationFoot = 48, kModificationLetter = 6.2, kModificationMostLeft = 400;
constexpr std::size_t kModificationMaxEntries = 4000;

// What is not a setting of the recipe, or is the bits themselves: more bits are no modification of a method.
bool is_modification(const std::string& name) {
  for (const char* other : {"model", "recipe", "evaluation", "use", "bits", "seed", "divergence"})
    if (name == other) return false;
  return !is_evaluation_way(name) && name != kCalibrationSeed;
}

// What changes, in millinats: the divergence, or a loss that does not depend on how windows are averaged into its
// perplexity.
double changing_figure(const Ranking& ranking, const Entry& entry) {
  return ranking.by_divergence ? ranking.value(entry) : entry.record.measures->nll_nats_per_token * 1e3;
}

const char* changing_name(const Ranking& ranking) { return ranking.by_divergence ? "KL divergence" : "loss"; }

struct Change {
  double millinats = 0.0;
  std::optional<double> standard_error = {};  // none where windows cannot be paired, or are all alike
  bool undecided = false;
};

struct Pair {
  const Entry *from, *to;
  Change change = {};
};

struct Modification {
  std::string name;  // "scaling: none → std"
  std::vector<Pair> pairs;
  Change mean = {};
};

// The mean of the pairs' changes. All pairs run over the same windows, so its error is that of the changes averaged
// window by window: many pairs are not so many independent measurements.
Change mean_change(const Ranking& ranking, std::span<const Pair> pairs) {
  const auto count = static_cast<double>(pairs.size());
  Change mean;
  for (const Pair& pair : pairs)
    mean.millinats += (changing_figure(ranking, *pair.to) - changing_figure(ranking, *pair.from)) / count;
  std::vector<double> changes(ranking.windows(*pairs[0].from).size());
  std::span<const std::uint64_t> weights;
  for (const Pair& pair : pairs) {
    if (weights.empty()) weights = ranking.weights(*pair.from, *pair.to);
    const std::span<const double> from = ranking.windows(*pair.from), to = ranking.windows(*pair.to);
    if (from.size() != changes.size() || to.size() != changes.size()) return mean;
    for (std::size_t w = 0; w < changes.size(); ++w) changes[w] += (to[w] - from[w]) / count;
  }
  if (const auto paired = paired_difference(changes, std::vector<double>(changes.size()), weights)) {
    mean = {paired->mean * 1e3, std::nullopt, is_undecided(*paired)};
    if (paired->standard_error > 0.0) mean.standard_error = paired->standard_error * 1e3;
  }
  return mean;
}

std::string change_text(const Ranking& ranking, const Change& change) {
  return signed_estimate_text(change.millinats, or_nan(change.standard_error), ranking.by_divergence ? 3 : 2);
}

// Whether a key of recipes says nothing with this value, as `sign: plain` does, which stands only beside scaling.
bool is_default(std::string_view name, std::string_view value) {
  for (const quant::RecipeKey& key : quant::recipe_keys()) {
    if (key.name != name) continue;
    try {
      quant::TensorSettings settings;
      key.assign(settings, value);
      return key.is_default(settings);
    } catch (const InvalidArgument&) {
      return false;  // of another version of recipes
    }
  }
  return true;  // of no recipe
}

// What else a change brings along: settings that tell no cells apart, because only those have them that differ in
// another one, yet do something (`drift_correction` beside `sequential`). ", drift_correction 1".
std::string brought_along(const SettingNames& silent, const Entry& from, const Entry& to) {
  std::string text;
  for (const std::string& name : silent) {
    const std::string_view before = from.setting(name), after = to.setting(name);
    if (before == after || is_default(name, after.empty() ? before : after)) continue;
    text += after.empty() ? fmt::format(", no {}", name) : fmt::format(", {} {}", name, after);
  }
  return text;
}

// A recipe's `seed` is no setting that tells, but cells of two seeds differ in it. Where it has no meaning a recipe has
// none: such a cell is of every seed.
bool is_of_one_seed(const Entry& a, const Entry& b) {
  const std::string_view left = a.setting("seed"), right = b.setting("seed");
  return left == right || left.empty() || right.empty();
}

// Pairs of entries that differ in `name` alone, and in what it brings along of those that tell nothing: from the first
// of its values in natural order (none, false, the smallest) to each other one.
void add_pairs(const Ranking& ranking, const Entries& entries, const SettingNames& telling, const SettingNames& silent,
               const std::string& name, std::map<std::string, Modification>& modifications) {
  std::map<std::string, Entries> alike;  // by all else
  for (const Entry* entry : entries) {
    std::string others = entry->rest_of_recipe() + "\n";
    for (const std::string& other : telling)
      if (other != name) others += fmt::format("{}={}\n", other, entry->setting(other));
    alike[others].push_back(entry);
  }
  for (auto& [others, group] : alike) {
    std::stable_sort(group.begin(), group.end(),
                     [&](const Entry* a, const Entry* b) { return natural_less(a->setting(name), b->setting(name)); });
    for (const Entry* to : group) {
      const Entry* from = *std::ranges::find_if(group, [&](const Entry* other) {
        return is_of_one_seed(*other, *to) && are_calibrated_alike(*other, *to, {name});
      });
      if (to->setting(name) == from->setting(name)) continue;
      const auto value = [&](const Entry* entry) {
        return entry->setting(name).empty() ? std::string_view("default") : entry->setting(name);
      };
      Modification& modification =
          modifications[fmt::format("{}: {} → {}{}", name, value(from), value(to), brought_along(silent, *from, *to))];
      Pair pair{.from = from, .to = to};
      pair.change = mean_change(ranking, {&pair, 1});
      modification.pairs.push_back(pair);
    }
  }
}

std::vector<Modification> modifications_of(const Ranking& ranking, const Entries& entries) {
  const SettingNames telling = telling_settings(entries);
  SettingNames silent = varying_settings(entries);
  std::erase_if(silent, [&](const std::string& name) { return std::ranges::count(telling, name) > 0; });
  std::map<std::string, Modification> by_name;
  for (const std::string& name : telling)
    if (is_modification(name)) add_pairs(ranking, entries, telling, silent, name, by_name);
  std::vector<Modification> modifications;
  for (auto& [name, modification] : by_name) {
    modification.name = name;
    modification.mean = mean_change(ranking, modification.pairs);
    modifications.push_back(std::move(modification));
  }
  std::stable_sort(modifications.begin(), modifications.end(),
                   [](const Modification& a, const Modification& b) { return a.mean.millinats < b.mean.millinats; });
  return modifications;
}

void draw_panel(const Ranking& ranking, Svg& svg, double top, double left, const std::string& title,
                const std::vector<Modification>& modifications) {
  double low = 0.0, high = 0.0;
  for (const Modification& modification : modifications) {
    const double mean = modification.mean.millinats,
                 reach = kUndecidedWithin * modification.mean.standard_error.value_or(0.0);
    low = std::min(low, mean - reach);
    high = std::max(high, mean + reach);
    for (const Pair& pair : modification.pairs) {
      low = std::min(low, pair.change.millinats);
      high = std::max(high, pair.change.millinats);
    }
  }
  const Axis x(low, high, left, kModificationRight);
  const double bottom = top + kModificationHead + kModificationRow * static_cast<double>(modifications.size());
  svg.text(16.0, top + 14.0, title, "label strong");
  for (const Axis::Tick& tick : x.ticks()) {
    svg.line(x(tick.value), top + kModificationHead - 4.0, x(tick.value), bottom, tick.value == 0.0 ? "axis" : "grid");
    svg.text(x(tick.value), bottom + 15.0, tick.text, "tick", Svg::Anchor::kMiddle);
  }
  svg.text((left + kModificationRight) / 2.0, bottom + 33.0,
           fmt::format("change of the {}, millinats per token (left is better)", changing_name(ranking)), "label",
           Svg::Anchor::kMiddle);
  for (std::size_t m = 0; m < modifications.size(); ++m) {
    const Modification& modification = modifications[m];
    const double y = top + kModificationHead + kModificationRow * (static_cast<double>(m) + 0.5);
    svg.text(left - 10.0, y + 4.0, modification.name, "tick", Svg::Anchor::kEnd);
    const double mean = modification.mean.millinats,
                 reach = kUndecidedWithin * modification.mean.standard_error.value_or(0.0);
    svg.rect(std::min(x(0.0), x(mean)), y - 8.0, std::abs(x(mean) - x(0.0)), 16.0,
             mean <= 0.0 ? "bar better" : "bar worse");
    if (reach > 0.0) svg.line(x(mean - reach), y, x(mean + reach), y, "error");
    for (const Pair& pair : modification.pairs)
      svg.mark(x(pair.change.millinats), y, 0,
               fmt::format("{}: {} millinats ({} instead of {})", modification.name, change_text(ranking, pair.change),
                           pair.to->setting("recipe"), pair.from->setting("recipe")),
               true);
  }
}

}  // namespace

std::optional<Figure> modification_figure(const Entries& comparable) {
  const Ranking ranking = ranking_of(comparable);
  std::map<std::string_view, Entries, decltype(&natural_less)> by_bits(&natural_less);
  for (const Entry* entry : comparable)
    if (!is_float_model(*entry) && std::isfinite(changing_figure(ranking, *entry)))
      by_bits[entry->setting("bits")].push_back(entry);

  Figure figure{.title = "What each single modification does",
                .caption = fmt::format(
                    "Every pair of cells that differ in one setting only (and in what that one brings along, which is "
                    "named then) is a mark; the bar is their mean, the line "
                    "through it two standard errors. Changes of the {} in millinats per token ± standard error "
                    "(paired over windows). †: undecided, within two standard errors of no change.",
                    changing_name(ranking)),
                .svg = {},
                .data = {.title = "",
                         .caption = "",
                         .columns = {"modification", "bits", "pairs", "mean", "lowest", "highest"},
                         .rows = {},
                         .warnings = {}}};
  std::vector<std::pair<std::string, std::vector<Modification>>> panels;
  const auto cell = [&](const Change& change) {
    return TableCell{.text = change_text(ranking, change), .undecided = change.undecided};
  };
  double height = 0.0;
  for (auto bits = by_bits.rbegin(); bits != by_bits.rend(); ++bits) {
    if (bits->second.size() > kModificationMaxEntries) continue;
    std::vector<Modification> modifications = modifications_of(ranking, bits->second);
    if (modifications.empty()) continue;
    for (const Modification& modification : modifications) {
      const auto [low, high] =
          std::minmax_element(modification.pairs.begin(), modification.pairs.end(),
                              [](const Pair& a, const Pair& b) { return a.change.millinats < b.change.millinats; });
      figure.data.rows.push_back({{.text = modification.name, .is_number = false},
                                  {.text = std::string(bits->first)},
                                  {.text = std::to_string(modification.pairs.size())},
                                  cell(modification.mean),
                                  cell(low->change),
                                  cell(high->change)});
    }
    height += kModificationHead + kModificationFoot + kModificationRow * static_cast<double>(modifications.size());
    panels.emplace_back(bits->first.empty() ? std::string() : fmt::format("{} bits", bits->first),
                        std::move(modifications));
  }
  if (panels.empty()) return std::nullopt;
  Svg svg(kModificationWidth, height,
          fmt::format("Change of the {} by each single modification", changing_name(ranking)));
  double top = 0.0, left = kModificationLeft;
  for (const auto& [title, modifications] : panels)
    for (const Modification& modification : modifications)
      left = std::max(left, 20.0 + kModificationLetter * static_cast<double>(modification.name.size()));
  left = std::min(left, kModificationMostLeft);
  for (const auto& [title, modifications] : panels) {
    draw_panel(ranking, svg, top, left, title, modifications);
    top += kModificationHead + kModificationFoot + kModificationRow * static_cast<double>(modifications.size());
  }
  figure.svg = svg.finish();
  return figure;
}

}  // namespace nibble::eval

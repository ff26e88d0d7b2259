#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "eval/report/figures.h"
#include "eval/report/ranking.h"
#include "eval/report/svg.h"

namespace nibble::eval {
namespace {

constexpr double kModificationWidth = 720, kModificationLeft = 220, kModificationRight = 690, kModificationRow = 26,
                 kModificationHead = 26, kModificationFoot = 48;
constexpr std::size_t kModificationMaxEntries = 4000;

// What is not a setting of the recipe, or is the bits themselves: more bits are no modification of a method.
bool is_modification(const std::string& name) {
  for (const char* other :
       {"model", "recipe", "evaluation", "bits", "seed", "protocol", "context", "stride", "average"})
    if (name == other) return false;
  return true;
}

struct Pair {
  const Entry *from, *to;
  double change;  // of the loss, millinats
};

struct Modification {
  std::string name;  // "scaling: none → std"
  std::vector<Pair> pairs;
  double mean() const {
    double sum = 0.0;
    for (const Pair& pair : pairs) sum += pair.change;
    return sum / static_cast<double>(pairs.size());
  }
};

// Loss of an entry that does not depend on how windows are averaged into its perplexity.
double loss(const Entry& entry) { return entry.record.measures->nll_nats_per_token * 1e3; }

// Pairs of entries that differ in `name` alone: from the first of its values in natural order (none, false, the
// smallest) to each other one.
void add_pairs(const Entries& entries, const SettingNames& telling, const std::string& name,
               std::map<std::string, Modification>& modifications) {
  std::map<std::string, Entries> alike;  // by all other settings
  for (const Entry* entry : entries) {
    std::string others;
    for (const std::string& other : telling)
      if (other != name) others += fmt::format("{}={}\n", other, entry->setting(other));
    alike[others].push_back(entry);
  }
  for (auto& [others, group] : alike) {
    std::stable_sort(group.begin(), group.end(),
                     [&](const Entry* a, const Entry* b) { return natural_less(a->setting(name), b->setting(name)); });
    for (std::size_t i = 1; i < group.size(); ++i) {
      if (group[i]->setting(name) == group[0]->setting(name)) continue;
      const auto value = [&](const Entry* entry) {
        return entry->setting(name).empty() ? std::string_view("default") : entry->setting(name);
      };
      Modification& modification = modifications[fmt::format("{}: {} → {}", name, value(group[0]), value(group[i]))];
      modification.pairs.push_back({group[0], group[i], loss(*group[i]) - loss(*group[0])});
    }
  }
}

std::vector<Modification> modifications_of(const Entries& entries) {
  const SettingNames telling = telling_settings(entries);
  std::map<std::string, Modification> by_name;
  for (const std::string& name : telling)
    if (is_modification(name)) add_pairs(entries, telling, name, by_name);
  std::vector<Modification> modifications;
  for (auto& [name, modification] : by_name) {
    modification.name = name;
    modifications.push_back(std::move(modification));
  }
  std::stable_sort(modifications.begin(), modifications.end(),
                   [](const Modification& a, const Modification& b) { return a.mean() < b.mean(); });
  return modifications;
}

void draw_panel(Svg& svg, double top, const std::string& title, const std::vector<Modification>& modifications) {
  double low = 0.0, high = 0.0;
  for (const Modification& modification : modifications)
    for (const Pair& pair : modification.pairs) {
      low = std::min(low, pair.change);
      high = std::max(high, pair.change);
    }
  const Axis x(low, high, kModificationLeft, kModificationRight);
  const double bottom = top + kModificationHead + kModificationRow * static_cast<double>(modifications.size());
  svg.text(16.0, top + 14.0, title, "label strong");
  for (const Axis::Tick& tick : x.ticks()) {
    svg.line(x(tick.value), top + kModificationHead - 4.0, x(tick.value), bottom, tick.value == 0.0 ? "axis" : "grid");
    svg.text(x(tick.value), bottom + 15.0, tick.text, "tick", Svg::Anchor::kMiddle);
  }
  svg.text((kModificationLeft + kModificationRight) / 2.0, bottom + 33.0,
           "change of the loss, millinats per token (left is better)", "label", Svg::Anchor::kMiddle);
  for (std::size_t m = 0; m < modifications.size(); ++m) {
    const Modification& modification = modifications[m];
    const double y = top + kModificationHead + kModificationRow * (static_cast<double>(m) + 0.5);
    svg.text(kModificationLeft - 10.0, y + 4.0, modification.name, "tick", Svg::Anchor::kEnd);
    const double mean = modification.mean();
    svg.rect(std::min(x(0.0), x(mean)), y - 8.0, std::abs(x(mean) - x(0.0)), 16.0,
             mean <= 0.0 ? "bar better" : "bar worse");
    for (const Pair& pair : modification.pairs)
      svg.mark(x(pair.change), y, 0,
               fmt::format("{}: {} millinats ({} instead of {})", modification.name, signed_number(pair.change, 2),
                           pair.to->setting("recipe"), pair.from->setting("recipe")),
               true);
  }
}

}  // namespace

std::string signed_number(double value, int digits) {
  const std::string text = fmt::format("{:+.{}f}", value, digits);
  return text.starts_with('-') ? "−" + text.substr(1) : text;
}

std::optional<Figure> modification_figure(const Entries& comparable) {
  std::map<std::string_view, Entries, decltype(&natural_less)> by_bits(&natural_less);
  for (const Entry* entry : comparable)
    if (!is_float_model(*entry) && std::isfinite(loss(*entry))) by_bits[entry->setting("bits")].push_back(entry);

  Figure figure{.title = "What each single modification does",
                .caption =
                    "Every pair of cells that differ in one setting only is a mark; the bar is their mean. Losses "
                    "are differences of the mean NLL.",
                .svg = {},
                .data = {.title = "",
                         .caption = "",
                         .columns = {"modification", "bits", "pairs", "mean", "lowest", "highest"},
                         .rows = {},
                         .warnings = {}}};
  std::vector<std::pair<std::string, std::vector<Modification>>> panels;
  double height = 0.0;
  for (auto bits = by_bits.rbegin(); bits != by_bits.rend(); ++bits) {
    if (bits->second.size() > kModificationMaxEntries) continue;
    std::vector<Modification> modifications = modifications_of(bits->second);
    if (modifications.empty()) continue;
    for (const Modification& modification : modifications) {
      const auto [low, high] = std::minmax_element(modification.pairs.begin(), modification.pairs.end(),
                                                   [](const Pair& a, const Pair& b) { return a.change < b.change; });
      figure.data.rows.push_back({{.text = modification.name, .is_number = false},
                                  {.text = std::string(bits->first)},
                                  {.text = std::to_string(modification.pairs.size())},
                                  {.text = signed_number(modification.mean(), 2)},
                                  {.text = signed_number(low->change, 2)},
                                  {.text = signed_number(high->change, 2)}});
    }
    height += kModificationHead + kModificationFoot + kModificationRow * static_cast<double>(modifications.size());
    panels.emplace_back(bits->first.empty() ? std::string() : fmt::format("{} bits", bits->first),
                        std::move(modifications));
  }
  if (panels.empty()) return std::nullopt;
  Svg svg(kModificationWidth, height, "Change of the loss by each single modification");
  double top = 0.0;
  for (const auto& [title, modifications] : panels) {
    draw_panel(svg, top, title, modifications);
    top += kModificationHead + kModificationFoot + kModificationRow * static_cast<double>(modifications.size());
  }
  figure.svg = svg.finish();
  return figure;
}

}  // namespace nibble::eval

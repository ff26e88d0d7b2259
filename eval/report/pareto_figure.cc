#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "eval/report/figures.h"
#include "eval/report/svg.h"

namespace nibble::eval {
namespace {

constexpr double kWidth = 720, kLeft = 64, kRight = 700, kPlot = 306, kFoot = 50;
constexpr std::size_t kMaxSeries = 8;
constexpr double kLogarithmicFrom = 2.5;  // the ratio of perplexities above which a linear axis hides the low ones

// The setting that tells series apart: the first of these that varies, with few enough values.
std::string series_setting(const Entries& entries) {
  for (const char* name : {"format", "solver", "granularity", "scaling", "weighting", "hessian", "shifting"}) {
    std::set<std::string_view> values;
    for (const Entry* entry : entries) values.insert(entry->setting(name));
    if (values.size() > 1 && values.size() <= kMaxSeries) return name;
  }
  return {};
}

std::string point_label(const Entry& entry) {
  const CellMeasures& measures = *entry.record.measures;
  std::string text = fmt::format("{}: {:.3f} bits per weight, perplexity {:.3f}", entry.setting("recipe"),
                                 measures.bits_per_weight, measures.perplexity);
  if (measures.perplexity_stderr) text += fmt::format(" ± {:.3f}", *measures.perplexity_stderr);
  if (entry.to_baseline)
    text += fmt::format("; loss {} ± {:.2f} millinats over the baseline",
                        signed_number(entry.to_baseline->mean * 1e3, 2), entry.to_baseline->standard_error * 1e3);
  return text;
}

}  // namespace

std::optional<Figure> pareto_figure(const Entries& comparable) {
  Entries points;
  const Entry* reference = nullptr;
  for (const Entry* entry : comparable) {
    const CellMeasures& measures = *entry->record.measures;
    if (!std::isfinite(measures.perplexity) || !(measures.perplexity > 0.0)) continue;
    if (fact(entry->record.configuration, "recipe") == "null") {
      reference = entry;
    } else if (std::isfinite(measures.bits_per_weight)) {
      points.push_back(entry);
    }
  }
  if (points.size() < 2) return std::nullopt;
  const auto bits = [](const Entry* entry) { return entry->record.measures->bits_per_weight; };
  const auto perplexity = [](const Entry* entry) { return entry->record.measures->perplexity; };
  std::stable_sort(points.begin(), points.end(), [&](const Entry* a, const Entry* b) {
    return std::pair(bits(a), perplexity(a)) < std::pair(bits(b), perplexity(b));
  });
  Entries front;
  for (const Entry* entry : points)
    if (front.empty() || perplexity(entry) < perplexity(front.back())) front.push_back(entry);

  double low = perplexity(front.back()), high = low;
  for (const Entry* entry : points) high = std::max(high, perplexity(entry));
  if (reference != nullptr) {
    low = std::min(low, perplexity(reference));
    high = std::max(high, perplexity(reference));
  }
  const std::string setting = series_setting(points);
  std::vector<std::string_view> series;
  for (const Entry* entry : points)
    if (std::find(series.begin(), series.end(), entry->setting(setting)) == series.end())
      series.push_back(entry->setting(setting));
  std::sort(series.begin(), series.end(), natural_less);
  std::vector<std::string> names;
  for (std::size_t i = 0; !setting.empty() && i < series.size(); ++i)
    names.push_back(fmt::format("{} {}", setting, series[i].empty() ? "default" : series[i]));
  const double top = 24.0 + legend_height(names, kLeft, kRight), bottom = top + kPlot;
  const Axis x(bits(points.front()), bits(points.back()), kLeft, kRight);
  const Axis y(low, high, bottom, top, high / low > kLogarithmicFrom);
  Svg svg(kWidth, bottom + kFoot, "Perplexity over bits per weight");
  draw_axes(svg, x, y, kLeft, kRight, top, bottom, "bits per weight, all stored bits of the blocks' linear layers",
            y.logarithmic() ? "perplexity (logarithmic)" : "perplexity");
  if (reference != nullptr) {
    const double level = y(perplexity(reference));
    svg.line(kLeft, level, kRight, level, "reference");
    svg.text(kRight - 4.0, level - 5.0, fmt::format("float model {:.2f}", perplexity(reference)), "note",
             Svg::Anchor::kEnd);
  }
  std::vector<std::pair<double, double>> steps;  // the front is a staircase: what is reachable with so many bits
  for (std::size_t i = 0; i < front.size(); ++i) {
    if (i > 0) steps.emplace_back(x(bits(front[i])), y(perplexity(front[i - 1])));
    steps.emplace_back(x(bits(front[i])), y(perplexity(front[i])));
  }
  steps.emplace_back(kRight, y(perplexity(front.back())));
  svg.polyline(steps, "front");

  const auto number_of = [&](const Entry* entry) {
    const auto place = std::find(front.begin(), front.end(), entry);
    return place == front.end() ? std::string() : std::to_string(place - front.begin() + 1);
  };
  for (const Entry* entry : points) {
    const auto place = std::find(series.begin(), series.end(), entry->setting(setting)) - series.begin();
    svg.mark(x(bits(entry)), y(perplexity(entry)), static_cast<std::size_t>(place), point_label(*entry),
             number_of(entry).empty());
    if (!number_of(entry).empty())
      svg.text(x(bits(entry)) - 9.0, y(perplexity(entry)) + 14.0, number_of(entry), "note strong", Svg::Anchor::kEnd);
  }
  draw_legend(svg, names, kLeft, kRight, 10.0);

  Figure figure{.title = "Perplexity over bits per weight",
                .caption =
                    "Filled marks, numbered, form the Pareto front: no other cell is better with as few bits. The "
                    "line shows what is reachable with a given number of bits.",
                .svg = svg.finish(),
                .data = {.title = "",
                         .caption = "",
                         .columns = {"front", "recipe", "bits/weight", "perplexity"},
                         .rows = {},
                         .warnings = {}}};
  for (const Entry* entry : points)
    figure.data.rows.push_back({{.text = number_of(entry)},
                                {.text = std::string(entry->setting("recipe")), .is_number = false},
                                {.text = fmt::format("{:.3f}", bits(entry))},
                                {.text = fmt::format("{:.3f}", perplexity(entry))}});
  return figure;
}

}  // namespace nibble::eval

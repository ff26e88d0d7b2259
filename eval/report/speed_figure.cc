#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "eval/report/figures.h"
#include "eval/report/svg.h"
#include "eval/report/tables.h"

namespace nibble::eval {
namespace {

constexpr double kSpeedWidth = 720, kSpeedLeft = 72, kSpeedRight = 700, kSpeedPlot = 306, kSpeedFoot = 50;
constexpr std::size_t kSpeedMaxSeries = 8;

// What a line is called: the evaluation only where there are several.
std::string name_of(const Entry& entry, bool several_evaluations) {
  std::string name = fmt::format("{}, {}", entry.setting("model"), entry.setting("recipe"));
  if (several_evaluations) name += fmt::format(", {}", entry.setting("evaluation"));
  return name;
}

}  // namespace

std::optional<Figure> speed_figure(const Entries& entries) {
  std::set<std::string_view> evaluations;
  for (const Entry* entry : entries) evaluations.insert(entry->setting("evaluation"));
  std::map<std::string, std::map<double, double>> series;
  std::set<double> contexts;
  double high = 0.0;
  for (const Entry* entry : entries) {
    for (const SpeedRecord& speed : entry->record.speeds) {
      const double rate = speed.tokens_per_second.median;
      if (speed.context == 0 || !(rate > 0.0) || !std::isfinite(rate)) continue;
      const auto context = static_cast<double>(speed.context);
      series[name_of(*entry, evaluations.size() > 1)][context] = rate;
      contexts.insert(context);
      high = std::max(high, rate);
    }
  }
  if (contexts.size() < 2) return std::nullopt;
  std::vector<std::string> names;
  for (const auto& [name, points] : series)
    if (names.size() < kSpeedMaxSeries) names.push_back(name);
  const double top = 24.0 + legend_height(names, kSpeedLeft, kSpeedRight), bottom = top + kSpeedPlot;
  const Axis x(*contexts.begin(), *contexts.rbegin(), kSpeedLeft, kSpeedRight, true);
  const Axis y(0.0, high, bottom, top);
  Svg svg(kSpeedWidth, bottom + kSpeedFoot, "Decoding speed over context");
  draw_axes(svg, x, y, kSpeedLeft, kSpeedRight, top, bottom, "context, tokens (logarithmic)", "tokens per second");
  std::size_t s = 0;
  for (const auto& [name, points] : series) {
    if (s == kSpeedMaxSeries) break;
    std::vector<std::pair<double, double>> line;
    for (const auto& [context, rate] : points) line.emplace_back(x(context), y(rate));
    svg.polyline(line, fmt::format("series l{}", s));
    for (const auto& [context, rate] : points)
      svg.mark(x(context), y(rate), s,
               fmt::format("{}: context {}, {:.0f} tokens/s", name, short_number(context), rate));
    ++s;
  }
  draw_legend(svg, names, kSpeedLeft, kSpeedRight, 10.0);
  return Figure{.title = "Speed over context",
                .caption =
                    "Tokens per second of greedy decoding, one by one, when the cache is nearly full; up to eight "
                    "lines are drawn, all are in the table.",
                .svg = svg.finish(),
                .data = speed_table(entries)};
}

}  // namespace nibble::eval

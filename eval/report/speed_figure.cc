#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "eval/report/figures.h"
#include "eval/report/svg.h"

namespace nibble::eval {
namespace {

constexpr double kWidth = 720, kHeight = 380, kLeft = 72, kRight = 700, kTop = 24, kBottom = 330;
constexpr std::size_t kMaxSeries = 8;

double number(std::string_view text) {
  double value = NAN;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

double tokens_per_second(const Entry& entry) {
  for (const auto& [name, value] : entry.record.timings)
    if (name == "tokens_per_second") return value;
  return NAN;
}

}  // namespace

std::optional<Figure> speed_figure(const Entries& entries) {
  std::map<std::string, std::map<double, double>> series;
  std::set<double> contexts;
  double high = 0.0;
  for (const Entry* entry : entries) {
    const double context = number(entry->setting("context")), speed = tokens_per_second(*entry);
    if (!(context > 0.0) || !std::isfinite(context) || !(speed > 0.0) || !std::isfinite(speed)) continue;
    series[fmt::format("{}, {}", entry->setting("model"), entry->setting("recipe"))][context] = speed;
    contexts.insert(context);
    high = std::max(high, speed);
  }
  if (contexts.size() < 2) return std::nullopt;
  const Axis x(*contexts.begin(), *contexts.rbegin(), kLeft, kRight, true);
  const Axis y(0.0, high, kBottom, kTop);
  Svg svg(kWidth, kHeight, "Evaluation speed over context");
  draw_axes(svg, x, y, kLeft, kRight, kTop, kBottom, "context, tokens (logarithmic)", "tokens per second");
  Figure figure{
      .title = "Speed over context",
      .caption =
          "Tokens run through the network per second while perplexities were measured; up to eight "
          "series are drawn, all are in the table.",
      .svg = {},
      .data = {
          .title = "", .caption = "", .columns = {"model, recipe", "context", "tokens/s"}, .rows = {}, .warnings = {}}};
  std::size_t s = 0;
  for (const auto& [name, points] : series) {
    std::vector<std::pair<double, double>> line;
    for (const auto& [context, speed] : points) {
      line.emplace_back(x(context), y(speed));
      figure.data.rows.push_back({{.text = name, .is_number = false},
                                  {.text = short_number(context)},
                                  {.text = fmt::format("{:.0f}", speed)}});
    }
    if (s < kMaxSeries) {
      svg.polyline(line, fmt::format("series l{}", s));
      for (const auto& [context, speed] : points)
        svg.mark(x(context), y(speed), s,
                 fmt::format("{}: context {}, {:.0f} tokens/s", name, short_number(context), speed));
    }
    ++s;
  }
  figure.svg = svg.finish();
  return figure;
}

}  // namespace nibble::eval

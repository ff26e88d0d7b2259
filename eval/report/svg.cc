#include "eval/report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/text/excerpt.h"
#include "eval/report/text_escape.h"

namespace nibble::eval {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kMarkRadius = 5.0;
constexpr double kLargest = 1e300;  // margins and differences of what is drawn must not overflow
constexpr int kMostTicks = 40;

std::string points_text(const std::vector<std::pair<double, double>>& points) {
  std::string text;
  for (const auto& [x, y] : points) text += fmt::format("{}{:.1f},{:.1f}", text.empty() ? "" : " ", x, y);
  return text;
}

// Corners of a regular polygon or star: `inner` is the share of the radius of every other corner.
std::vector<std::pair<double, double>> corners(double x, double y, int count, double turn, double inner) {
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i < count; ++i) {
    const double angle = 2.0 * kPi * i / count + turn, radius = kMarkRadius * 1.2 * (i % 2 == 1 ? inner : 1.0);
    points.emplace_back(x + radius * std::sin(angle), y - radius * std::cos(angle));
  }
  return points;
}

double nice_step(double range, double count) {
  const double raw = range / count, power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0})
    if (factor * power >= raw * 0.999) return factor * power;
  return 10.0 * power;
}

constexpr double kLegendLine = 20.0;
constexpr std::size_t kLongestName = 90;  // bytes that fit a line

// Where each entry of a legend begins: across, and down from its top.
std::vector<std::pair<double, double>> legend_places(const std::vector<std::string>& names, double left, double right) {
  std::vector<std::pair<double, double>> places;
  double x = left, y = 0.0;
  for (const std::string& name : names) {
    const double width = 34.0 + 6.4 * static_cast<double>(excerpt(name, kLongestName).size());
    if (x > left && x + width > right) {
      x = left;
      y += kLegendLine;
    }
    places.emplace_back(x, y);
    x += width;
  }
  return places;
}

}  // namespace

Svg::Svg(double width, double height, std::string_view description)
    : svg_(fmt::format("<svg viewBox=\"0 0 {:g} {:g}\" role=\"group\" aria-label=\"{}\">", width, height,
                       html_text(description))) {}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view css_class) {
  svg_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>", x1, y1, x2, y2,
                      css_class);
}

void Svg::polyline(const std::vector<std::pair<double, double>>& points, std::string_view css_class) {
  svg_ += fmt::format("<polyline points=\"{}\" class=\"{}\"/>", points_text(points), css_class);
}

void Svg::polygon(const std::vector<std::pair<double, double>>& points, std::string_view css_class) {
  svg_ += fmt::format("<polygon points=\"{}\" class=\"{}\"/>", points_text(points), css_class);
}

void Svg::rect(double x, double y, double width, double height, std::string_view css_class, std::string_view fill) {
  svg_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" class=\"{}\"", x, y, width,
                      height, css_class);
  if (!fill.empty()) svg_ += fmt::format(" fill=\"{}\"", fill);
  svg_ += "/>";
}

void Svg::text(double x, double y, std::string_view content, std::string_view css_class, Anchor anchor, double rotate) {
  constexpr std::array<std::string_view, 3> kAnchors = {"start", "middle", "end"};
  svg_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"", x, y,
                      kAnchors[static_cast<std::size_t>(anchor)]);
  if (!css_class.empty()) svg_ += fmt::format(" class=\"{}\"", css_class);
  if (rotate != 0.0) svg_ += fmt::format(" transform=\"rotate({:g} {:.1f} {:.1f})\"", rotate, x, y);
  svg_ += fmt::format(">{}</text>", html_text(content));
}

void Svg::mark(double x, double y, std::size_t series, std::string_view label, bool hollow) {
  if (!label.empty()) begin_item(label);
  const std::string css_class = fmt::format("mark s{}{}", series % 8, hollow ? " hollow" : "");
  switch (series % 8) {
    case 0:
      svg_ +=
          fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:g}\" class=\"{}\"/>", x, y, kMarkRadius, css_class);
      break;
    case 1:
      polygon(corners(x, y, 4, kPi / 4.0, 1.0), css_class);  // square
      break;
    case 2:
      polygon(corners(x, y, 3, 0.0, 1.0), css_class);  // triangle
      break;
    case 3:
      polygon(corners(x, y, 4, 0.0, 1.0), css_class);  // diamond
      break;
    case 4:
      polygon(corners(x, y, 3, kPi, 1.0), css_class);  // triangle, point down
      break;
    case 5:
      polygon(corners(x, y, 5, 0.0, 1.0), css_class);  // pentagon
      break;
    case 6:
      polygon(corners(x, y, 10, 0.0, 0.45), css_class);  // star
      break;
    default:
      polygon(corners(x, y, 8, 0.0, 0.35), css_class);  // four-pointed star
  }
  if (!label.empty()) end_item();
}

void Svg::begin_item(std::string_view label) {
  const std::string escaped = html_text(label);
  svg_ += fmt::format("<g class=\"item\" tabindex=\"0\" role=\"img\" aria-label=\"{0}\"><title>{0}</title>", escaped);
}

void Svg::end_item() { svg_ += "</g>"; }

std::string Svg::finish() { return svg_ + "</svg>"; }

Axis::Axis(double low, double high, double from, double to, bool logarithmic)
    : low_(low), high_(high), from_(from), to_(to), logarithmic_(logarithmic) {
  if (logarithmic_) {
    low_ = std::log(low_);
    high_ = std::log(high_);
  }
  const double range = high_ - low_;
  const double margin = range > 0.0 ? 0.05 * range : std::max(0.05 * std::abs(high_), 1e-6);
  low_ -= margin;
  high_ += margin;
  // Records may hold any number: what is drawn stays finite, logarithms and all.
  const double largest = logarithmic_ ? std::log(kLargest) : kLargest;
  low_ = std::clamp(low_, -largest, largest);
  high_ = std::clamp(high_, -largest, largest);
}

double Axis::operator()(double value) const {
  const double v = logarithmic_ ? std::log(value) : value;
  return from_ + (to_ - from_) * (v - low_) / (high_ - low_);
}

std::vector<Axis::Tick> Axis::ticks() const {
  std::vector<Tick> ticks;
  if (logarithmic_) {
    const double low = std::exp(low_), high = std::exp(high_);
    const bool wide = high / low > 30.0;
    const double first = std::floor(std::log10(low)), decades = std::log10(high) - first;
    const double stride = std::max(1.0, std::ceil(decades / kMostTicks));
    for (double exponent = first; exponent <= first + decades; exponent += stride) {
      const double power = std::pow(10.0, exponent);
      for (const double factor : wide ? std::vector<double>{1, 2, 5} : std::vector<double>{1, 1.5, 2, 3, 4, 5, 7})
        if (factor * power >= low && factor * power <= high)
          ticks.push_back({factor * power, short_number(factor * power)});
    }
    if (ticks.size() >= 2) return ticks;
    ticks.clear();
  }
  const double low = logarithmic_ ? std::exp(low_) : low_, high = logarithmic_ ? std::exp(high_) : high_;
  const double step = nice_step(high - low, 6.0);
  const double first = std::ceil(low / step);
  for (int i = 0; i < kMostTicks && (first + i) * step <= high; ++i) {
    const double k = first + i;
    ticks.push_back({k * step, short_number(std::abs(k) < 0.5 ? 0.0 : k * step)});
  }
  return ticks;
}

void draw_axes(Svg& svg, const Axis& x, const Axis& y, double left, double right, double top, double bottom,
               std::string_view x_title, std::string_view y_title) {
  for (const Axis::Tick& tick : x.ticks()) {
    svg.line(x(tick.value), top, x(tick.value), bottom, "grid");
    svg.text(x(tick.value), bottom + 16.0, tick.text, "tick", Svg::Anchor::kMiddle);
  }
  for (const Axis::Tick& tick : y.ticks()) {
    svg.line(left, y(tick.value), right, y(tick.value), "grid");
    svg.text(left - 6.0, y(tick.value) + 4.0, tick.text, "tick", Svg::Anchor::kEnd);
  }
  svg.line(left, bottom, right, bottom, "axis");
  svg.line(left, top, left, bottom, "axis");
  svg.text((left + right) / 2.0, bottom + 36.0, x_title, "label", Svg::Anchor::kMiddle);
  svg.text(14.0, (top + bottom) / 2.0, y_title, "label", Svg::Anchor::kMiddle, -90.0);
}

double legend_height(const std::vector<std::string>& names, double left, double right) {
  return names.empty() ? 0.0 : legend_places(names, left, right).back().second + kLegendLine;
}

void draw_legend(Svg& svg, const std::vector<std::string>& names, double left, double right, double top) {
  const auto places = legend_places(names, left, right);
  for (std::size_t s = 0; s < names.size(); ++s) {
    svg.mark(places[s].first + 6.0, top + places[s].second + 10.0, s, "");
    svg.text(places[s].first + 16.0, top + places[s].second + 14.0, excerpt(names[s], kLongestName), "note");
  }
}

std::string heat_colour(double t) {
  struct Colour {
    double r, g, b;
  };
  constexpr std::array<Colour, 6> kStops = {
      {{68, 1, 84}, {65, 68, 135}, {42, 120, 142}, {34, 168, 132}, {122, 209, 81}, {253, 231, 37}}};
  const double place = std::clamp(std::isfinite(t) ? t : 0.0, 0.0, 1.0) * (kStops.size() - 1);
  const auto i = std::min<std::size_t>(static_cast<std::size_t>(place), kStops.size() - 2);
  const double share = place - static_cast<double>(i);
  const auto mix = [&](double a, double b) { return static_cast<int>(std::lround(a + share * (b - a))); };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(kStops[i].r, kStops[i + 1].r), mix(kStops[i].g, kStops[i + 1].g),
                     mix(kStops[i].b, kStops[i + 1].b));
}

std::string short_number(double value) {
  if (value == 0.0) return "0";
  const std::string text = fmt::format("{:.4g}", value);
  return text.starts_with('-') ? "−" + text.substr(1) : text;
}

}  // namespace nibble::eval

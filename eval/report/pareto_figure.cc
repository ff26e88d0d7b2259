#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "eval/report/figures.h"
#include "eval/report/pareto_front.h"
#include "eval/report/ranking.h"
#include "eval/report/svg.h"

namespace nibble::eval {
namespace {

constexpr double kParetoWidth = 720, kParetoLeft = 64, kParetoRight = 700, kParetoPlot = 306, kParetoFoot = 50;
constexpr std::size_t kParetoMaxSeries = 8;
constexpr double kLogarithmicFrom = 2.5;  // the ratio of figures above which a linear axis hides the low ones

// The setting that tells series apart: the first of these that varies, with few enough values.
std::string series_setting(const Entries& entries) {
  for (const char* name : {"format", "solver", "granularity", "scaling", "weighting", "hessian", "shifting"}) {
    std::set<std::string_view> values;
    for (const Entry* entry : entries) values.insert(entry->setting(name));
    if (values.size() > 1 && values.size() <= kParetoMaxSeries) return name;
  }
  return {};
}

std::string drawn_loss(const Entry& entry) { return entry.to_baseline ? millinat_difference(*entry.to_baseline) : "0"; }

// What is drawn upwards. Loss is paired with the baseline's, so its errors are small beside those of perplexities,
// which hold how hard the text is.
enum class Upwards { kDivergence, kLoss, kPerplexity };

// What is drawn over what.
struct Axes {
  Upwards upwards = Upwards::kPerplexity;
  bool whole_model = false;

  Ranking ranking() const { return {.by_divergence = upwards == Upwards::kDivergence}; }
  double bits(const Entry* entry) const {
    const CellMeasures& measures = *entry->record.measures;
    return whole_model ? measures.model_bits_per_weight : measures.bits_per_weight;
  }
  double figure(const Entry* entry) const {
    if (upwards != Upwards::kLoss) return ranking().value(*entry);
    return entry->to_baseline ? entry->to_baseline->mean * 1e3 : 0.0;
  }
  // Losses over the baseline differ as losses do.
  ParetoMeasures measures() const {
    return {.bits = [this](const Entry& entry) { return bits(&entry); },
            .figure = [this](const Entry& entry) { return figure(&entry); },
            .difference = [this](const Entry& a, const Entry& b) { return ranking().difference(a, b); }};
  }
  // Two standard errors, 0 where there are none.
  double error(const Entry* entry) const {
    const CellMeasures& measures = *entry->record.measures;
    double one = measures.perplexity_stderr.value_or(0.0);
    if (upwards == Upwards::kDivergence)
      one = measures.divergence ? measures.divergence->stderr_nats.value_or(0.0) * 1e3 : 0.0;
    if (upwards == Upwards::kLoss) one = entry->to_baseline ? entry->to_baseline->standard_error * 1e3 : 0.0;
    return kUndecidedWithin * one;
  }
  std::string text(const Entry& entry) const {
    return upwards == Upwards::kLoss ? drawn_loss(entry) : ranking().text(entry);
  }
  std::string name() const {
    return upwards == Upwards::kLoss ? "loss over the baseline, millinats per token" : ranking().name();
  }
  // Whether a figure can be drawn: only losses may be 0 or less.
  bool has(double figure) const { return std::isfinite(figure) && (upwards == Upwards::kLoss || figure > 0.0); }
  std::string title() const {
    const char* what = upwards == Upwards::kDivergence ? "KL divergence"
                       : upwards == Upwards::kLoss     ? "Loss"
                                                       : "Perplexity";
    return fmt::format("{} over bits per weight{}", what, whole_model ? " of the whole model" : "");
  }
};

std::string point_label(const Axes& axes, const Entry& entry, bool undecided) {
  std::string text = fmt::format("{}: {:.3f} bits per weight, {} {}", entry.setting("recipe"), axes.bits(&entry),
                                 axes.name(), axes.text(entry));
  if (entry.to_baseline && axes.upwards != Upwards::kLoss)
    text += fmt::format("; loss {} millinats over the baseline", drawn_loss(entry));
  if (undecided) text += "; on the front or off it within the errors";
  return text;
}

// What is drawn, in order of bits, then of figures.
struct Drawn {
  Entries points;
  const Entry* reference = nullptr;  // the float model, where its figure is a line
};

Drawn what_is_drawn(const Axes& axes, const Entries& comparable) {
  Drawn drawn;
  for (const Entry* entry : comparable) {
    const double figure = axes.figure(entry);
    if (is_float_model(*entry)) {
      if (axes.upwards == Upwards::kPerplexity && axes.has(figure)) drawn.reference = entry;
    } else if (axes.has(figure) && std::isfinite(axes.bits(entry))) {
      drawn.points.push_back(entry);
    }
  }
  std::stable_sort(drawn.points.begin(), drawn.points.end(), [&](const Entry* a, const Entry* b) {
    return std::pair(axes.bits(a), axes.figure(a)) < std::pair(axes.bits(b), axes.figure(b));
  });
  return drawn;
}

// Marks of one colour and their names in the legend; without a setting that tells cells apart all are one.
struct Series {
  std::string setting;
  std::vector<std::string_view> values;
  std::vector<std::string> names;

  explicit Series(const Entries& points) : setting(series_setting(points)) {
    for (const Entry* entry : points)
      if (std::find(values.begin(), values.end(), entry->setting(setting)) == values.end())
        values.push_back(entry->setting(setting));
    std::sort(values.begin(), values.end(), natural_less);
    for (std::size_t i = 0; !setting.empty() && i < values.size(); ++i)
      names.push_back(fmt::format("{} {}", setting, values[i].empty() ? "default" : values[i]));
  }
  std::size_t of(const Entry& entry) const {
    return static_cast<std::size_t>(std::find(values.begin(), values.end(), entry.setting(setting)) - values.begin());
  }
};

// The place on the front from 1 on, and † where the errors leave open whether it is there.
std::string front_label(const ParetoFront& pareto, const Entry* entry) {
  const auto place = std::find(pareto.lowest.begin(), pareto.lowest.end(), entry);
  return fmt::format("{}{}", place == pareto.lowest.end() ? "" : std::to_string(place - pareto.lowest.begin() + 1),
                     pareto.undecided.contains(entry) ? "†" : "");
}

// The plot's frame, from its upper edge to its lower one.
struct Frame {
  double top, bottom;
  Axis x, y;
};

Frame frame_of(const Axes& axes, const Drawn& drawn, const std::vector<std::string>& names) {
  double low = axes.figure(drawn.points.front()), high = low;
  const auto hold = [&](const Entry* entry) {
    low = std::min(low, axes.figure(entry));
    high = std::max(high, axes.figure(entry));
  };
  for (const Entry* entry : drawn.points) hold(entry);
  if (drawn.reference != nullptr) hold(drawn.reference);
  const double top = 24.0 + legend_height(names, kParetoLeft, kParetoRight), bottom = top + kParetoPlot;
  return {.top = top,
          .bottom = bottom,
          .x = Axis(axes.bits(drawn.points.front()), axes.bits(drawn.points.back()), kParetoLeft, kParetoRight),
          .y = Axis(low, high, bottom, top, low > 0.0 && high / low > kLogarithmicFrom)};
}

void draw_reference(Svg& svg, const Axes& axes, const Frame& frame, const Entry* reference) {
  const double level = frame.y(axes.figure(reference));
  svg.line(kParetoLeft, level, kParetoRight, level, "reference");
  svg.text(kParetoRight - 4.0, level - 5.0, fmt::format("float model {:.2f}", axes.figure(reference)), "note",
           Svg::Anchor::kEnd);
}

// A staircase: what is reachable with so many bits.
void draw_front(Svg& svg, const Axes& axes, const Frame& frame, const Entries& front) {
  std::vector<std::pair<double, double>> steps;
  for (std::size_t i = 0; i < front.size(); ++i) {
    if (i > 0) steps.emplace_back(frame.x(axes.bits(front[i])), frame.y(axes.figure(front[i - 1])));
    steps.emplace_back(frame.x(axes.bits(front[i])), frame.y(axes.figure(front[i])));
  }
  steps.emplace_back(kParetoRight, frame.y(axes.figure(front.back())));
  svg.polyline(steps, "front");
}

void draw_point(Svg& svg, const Axes& axes, const Frame& frame, const Series& series, const ParetoFront& pareto,
                const Entry* entry) {
  const auto& [top, bottom, x, y] = frame;
  const double at = x(axes.bits(entry)), figure = axes.figure(entry), error = axes.error(entry);
  // As far as the plot reaches: of a logarithmic axis the lower end may lie below everything drawn.
  const double below = std::max(figure - error, y.logarithmic() ? figure * 1e-3 : figure - error);
  if (error > 0.0)
    svg.line(at, std::clamp(y(below), top, bottom), at, std::clamp(y(figure + error), top, bottom), "error");
  const bool on_front = std::find(pareto.lowest.begin(), pareto.lowest.end(), entry) != pareto.lowest.end();
  svg.mark(at, y(figure), series.of(*entry), point_label(axes, *entry, pareto.undecided.contains(entry)), !on_front);
  if (const std::string label = front_label(pareto, entry); !label.empty())
    svg.text(at - 9.0, y(figure) + 14.0, label, "note strong", Svg::Anchor::kEnd);
}

std::optional<Figure> pareto_figure(const Axes& axes, const Entries& comparable) {
  const Drawn drawn = what_is_drawn(axes, comparable);
  if (drawn.points.size() < 2) return std::nullopt;
  const ParetoFront pareto = pareto_front(drawn.points, axes.measures());
  const Series series(drawn.points);
  const Frame frame = frame_of(axes, drawn, series.names);
  Svg svg(kParetoWidth, frame.bottom + kParetoFoot, axes.title());
  draw_axes(svg, frame.x, frame.y, kParetoLeft, kParetoRight, frame.top, frame.bottom,
            axes.whole_model ? "bits per weight, all stored bits over all parameters"
                             : "bits per weight, all stored bits of the blocks' linear layers",
            fmt::format("{}{}", axes.name(), frame.y.logarithmic() ? " (logarithmic)" : ""));
  if (drawn.reference != nullptr) draw_reference(svg, axes, frame, drawn.reference);
  draw_front(svg, axes, frame, pareto.lowest);
  for (const Entry* entry : drawn.points) draw_point(svg, axes, frame, series, pareto, entry);
  draw_legend(svg, series.names, kParetoLeft, kParetoRight, 10.0);

  Figure figure{.title = axes.title(),
                .caption =
                    "Filled marks, numbered, form the Pareto front: no other cell has a lower figure with as few bits. "
                    "†: undecided, on the front or off it within the errors of differences from cells with as few bits "
                    "(paired over windows). The line shows what is reachable with a given number of bits; bars are two "
                    "standard errors.",
                .svg = svg.finish(),
                .data = {.title = "",
                         .caption = "",
                         .columns = {"front", "recipe", "bits/weight", axes.name()},
                         .rows = {},
                         .warnings = {}}};
  for (const Entry* entry : drawn.points)
    figure.data.rows.push_back({{.text = front_label(pareto, entry)},
                                {.text = std::string(entry->setting("recipe")), .is_number = false},
                                {.text = fmt::format("{:.3f}", axes.bits(entry))},
                                {.text = axes.text(*entry)}});
  return figure;
}

}  // namespace

std::vector<Figure> pareto_figures(const Entries& comparable) {
  std::vector<Figure> figures;
  std::vector<Upwards> drawn;
  if (ranking_of(comparable).by_divergence) drawn.push_back(Upwards::kDivergence);
  const bool losses =
      std::ranges::all_of(comparable, [](const Entry* entry) { return entry->to_baseline || entry->is_baseline; });
  drawn.push_back(losses ? Upwards::kLoss : Upwards::kPerplexity);
  for (const Upwards upwards : drawn)
    for (const bool whole_model : {false, true})
      if (auto figure = pareto_figure({.upwards = upwards, .whole_model = whole_model}, comparable))
        figures.push_back(std::move(*figure));
  return figures;
}

}  // namespace nibble::eval

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

std::optional<Figure> pareto_figure(const Axes& axes, const Entries& comparable) {
  Entries points;
  const Entry* reference = nullptr;
  for (const Entry* entry : comparable) {
    const double figure = axes.figure(entry);
    if (is_float_model(*entry)) {
      if (axes.upwards == Upwards::kPerplexity && axes.has(figure)) reference = entry;
    } else if (axes.has(figure) && std::isfinite(axes.bits(entry))) {
      points.push_back(entry);
    }
  }
  if (points.size() < 2) return std::nullopt;
  std::stable_sort(points.begin(), points.end(), [&](const Entry* a, const Entry* b) {
    return std::pair(axes.bits(a), axes.figure(a)) < std::pair(axes.bits(b), axes.figure(b));
  });
  const auto [front, undecided] = pareto_front(points, axes.measures());

  double low = axes.figure(front.back()), high = low;
  for (const Entry* entry : points) high = std::max(high, axes.figure(entry));
  if (reference != nullptr) {
    low = std::min(low, axes.figure(reference));
    high = std::max(high, axes.figure(reference));
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
  const double top = 24.0 + legend_height(names, kParetoLeft, kParetoRight), bottom = top + kParetoPlot;
  const Axis x(axes.bits(points.front()), axes.bits(points.back()), kParetoLeft, kParetoRight);
  const Axis y(low, high, bottom, top, low > 0.0 && high / low > kLogarithmicFrom);
  Svg svg(kParetoWidth, bottom + kParetoFoot, axes.title());
  draw_axes(svg, x, y, kParetoLeft, kParetoRight, top, bottom,
            axes.whole_model ? "bits per weight, all stored bits over all parameters"
                             : "bits per weight, all stored bits of the blocks' linear layers",
            fmt::format("{}{}", axes.name(), y.logarithmic() ? " (logarithmic)" : ""));
  if (reference != nullptr) {
    const double level = y(axes.figure(reference));
    svg.line(kParetoLeft, level, kParetoRight, level, "reference");
    svg.text(kParetoRight - 4.0, level - 5.0, fmt::format("float model {:.2f}", axes.figure(reference)), "note",
             Svg::Anchor::kEnd);
  }
  std::vector<std::pair<double, double>> steps;  // the front is a staircase: what is reachable with so many bits
  for (std::size_t i = 0; i < front.size(); ++i) {
    if (i > 0) steps.emplace_back(x(axes.bits(front[i])), y(axes.figure(front[i - 1])));
    steps.emplace_back(x(axes.bits(front[i])), y(axes.figure(front[i])));
  }
  steps.emplace_back(kParetoRight, y(axes.figure(front.back())));
  svg.polyline(steps, "front");

  const auto place_of = [&front = front](const Entry* entry) { return std::find(front.begin(), front.end(), entry); };
  const auto label_of = [&, &front = front, &undecided = undecided](const Entry* entry) {
    const auto place = place_of(entry);
    return fmt::format("{}{}", place == front.end() ? "" : std::to_string(place - front.begin() + 1),
                       undecided.contains(entry) ? "†" : "");
  };
  for (const Entry* entry : points) {
    const double at = x(axes.bits(entry)), figure = axes.figure(entry), error = axes.error(entry);
    // As far as the plot reaches: of a logarithmic axis the lower end may lie below everything drawn.
    const double below = std::max(figure - error, y.logarithmic() ? figure * 1e-3 : figure - error);
    if (error > 0.0)
      svg.line(at, std::clamp(y(below), top, bottom), at, std::clamp(y(figure + error), top, bottom), "error");
    const auto place = std::find(series.begin(), series.end(), entry->setting(setting)) - series.begin();
    svg.mark(at, y(figure), static_cast<std::size_t>(place), point_label(axes, *entry, undecided.contains(entry)),
             place_of(entry) == front.end());
    if (const std::string label = label_of(entry); !label.empty())
      svg.text(at - 9.0, y(figure) + 14.0, label, "note strong", Svg::Anchor::kEnd);
  }
  draw_legend(svg, names, kParetoLeft, kParetoRight, 10.0);

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
  for (const Entry* entry : points)
    figure.data.rows.push_back({{.text = label_of(entry)},
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

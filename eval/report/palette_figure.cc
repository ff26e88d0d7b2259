#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "eval/report/figures.h"
#include "eval/report/layer_name.h"
#include "eval/report/svg.h"

namespace nibble::eval {
namespace {

constexpr double kPaletteFigureWidth = 720, kPanelWidth = 232, kPanelHeight = 128, kPlotHeight = 82, kTop = 22;
constexpr std::size_t kPerLine = 3, kMaxPanels = 18, kMaxBins = 512;

bool is_drawable(const TensorRecord& tensor) {
  if (tensor.palette.empty() || !tensor.histogram) return false;
  const Histogram& histogram = *tensor.histogram;
  return !histogram.counts.empty() && histogram.counts.size() <= kMaxBins && std::isfinite(histogram.low) &&
         std::isfinite(histogram.high) &&
         histogram.low<histogram.high&& * std::max_element(histogram.counts.begin(), histogram.counts.end())> 0;
}

// Layers of the first, the middle and the last block.
std::vector<const TensorRecord*> chosen(const std::vector<TensorRecord>& tensors) {
  std::size_t last = 0;
  for (const TensorRecord& tensor : tensors)
    if (const auto name = parse_layer_name(tensor.name); name && is_drawable(tensor))
      last = std::max(last, name->block);
  const std::set<std::size_t> blocks = {0, last / 2, last};
  std::vector<const TensorRecord*> result;
  for (const TensorRecord& tensor : tensors) {
    const auto name = parse_layer_name(tensor.name);
    if (name && blocks.contains(name->block) && is_drawable(tensor) && result.size() < kMaxPanels)
      result.push_back(&tensor);
  }
  return result;
}

void draw_panel(Svg& svg, double left, double top, const TensorRecord& tensor) {
  const Histogram& histogram = *tensor.histogram;
  const double low = std::min(histogram.low, tensor.palette.front());
  const double high = std::max(histogram.high, tensor.palette.back());
  const auto x = [&](double value) { return left + (kPanelWidth - 16.0) * (value - low) / (high - low); };
  const double bottom = top + kTop + kPlotHeight;
  const auto tallest = static_cast<double>(*std::max_element(histogram.counts.begin(), histogram.counts.end()));
  const double bin = (histogram.high - histogram.low) / static_cast<double>(histogram.counts.size());
  svg.begin_item(fmt::format("{}: {} palette entries from {} to {}, weights from {} to {}", tensor.name,
                             tensor.palette.size(), short_number(tensor.palette.front()),
                             short_number(tensor.palette.back()), short_number(histogram.low),
                             short_number(histogram.high)));
  svg.text(left, top + 13.0, tensor.name, "tick strong");
  std::vector<std::pair<double, double>> outline = {{x(histogram.low), bottom}};
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    const double level = bottom - kPlotHeight * static_cast<double>(histogram.counts[i]) / tallest;
    outline.emplace_back(x(histogram.low + bin * static_cast<double>(i)), level);
    outline.emplace_back(x(histogram.low + bin * static_cast<double>(i + 1)), level);
  }
  outline.emplace_back(x(histogram.high), bottom);
  svg.polygon(outline, "histogram");
  for (const double entry : tensor.palette) svg.line(x(entry), top + kTop, x(entry), bottom, "palette");
  svg.line(left, bottom, left + kPanelWidth - 16.0, bottom, "axis");
  svg.text(left, bottom + 13.0, short_number(low), "tick");
  svg.text(left + kPanelWidth - 16.0, bottom + 13.0, short_number(high), "tick", Svg::Anchor::kEnd);
  svg.end_item();
}

}  // namespace

std::optional<Figure> palette_figure(const Entry& entry) {
  const std::vector<const TensorRecord*> tensors = chosen(entry.record.measures->tensors);
  if (tensors.empty()) return std::nullopt;
  const double lines = std::ceil(static_cast<double>(tensors.size()) / kPerLine);
  Svg svg(kPaletteFigureWidth, lines * kPanelHeight, "Histograms of weights with their palettes");
  Figure figure{.title = fmt::format("Weights and their palettes: {}", entry.setting("recipe")),
                .caption =
                    "Histograms of the weights (divided by their rows' scales where there are some), and where the "
                    "palette's entries lie: layers of the first, the middle and the last block.",
                .svg = {},
                .data = {.title = "", .caption = "", .columns = {"layer", "palette"}, .rows = {}, .warnings = {}}};
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    draw_panel(svg, 8.0 + static_cast<double>(t % kPerLine) * (kPanelWidth + 6.0),
               static_cast<double>(t / kPerLine) * kPanelHeight, *tensors[t]);
    std::string palette;
    for (const double value : tensors[t]->palette) palette += (palette.empty() ? "" : ", ") + short_number(value);
    figure.data.rows.push_back({{.text = tensors[t]->name, .is_number = false}, {.text = palette, .is_number = false}});
  }
  figure.svg = svg.finish();
  return figure;
}

}  // namespace nibble::eval

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "eval/report/figures.h"
#include "eval/report/layer_name.h"
#include "eval/report/svg.h"

namespace nibble::eval {
namespace {

constexpr double kWidth = 720, kLeft = 150, kRight = 630, kHead = 30, kFoot = 34, kMaxCell = 30;
constexpr std::size_t kMaxBlocks = 200;

struct Layer {
  const TensorRecord* tensor;
  LayerName name;
};

struct Grid {
  std::vector<Layer> layers;
  std::vector<std::string> kinds;
  std::size_t blocks = 0;
};

Grid grid_of(const Entry& entry) {
  Grid grid;
  for (const TensorRecord& tensor : entry.record.measures->tensors) {
    auto name = parse_layer_name(tensor.name);
    if (!name || name->block >= kMaxBlocks || tensor.format == "float16") continue;
    grid.blocks = std::max(grid.blocks, name->block + 1);
    if (std::find(grid.kinds.begin(), grid.kinds.end(), name->kind) == grid.kinds.end())
      grid.kinds.push_back(name->kind);
    grid.layers.push_back({&tensor, std::move(*name)});
  }
  return grid;
}

using Value = std::optional<double> (*)(const TensorRecord& tensor);

std::optional<double> output_error(const TensorRecord& tensor) { return tensor.output_error; }
std::optional<double> weight_error(const TensorRecord& tensor) { return tensor.relative_weight_error; }
std::optional<double> sensitivity(const TensorRecord& tensor) { return tensor.fisher_error; }

bool has_values(const Grid& grid, Value value) {
  return std::any_of(grid.layers.begin(), grid.layers.end(), [&](const Layer& layer) {
    const auto v = value(*layer.tensor);
    return v && std::isfinite(*v) && *v > 0.0;
  });
}

double panel_height(const Grid& grid) { return kHead + kFoot + static_cast<double>(grid.kinds.size()) * 20.0; }

// Colours are logarithmic: errors of layers differ by factors.
void draw_panel(Svg& svg, double top, const std::string& title, const Grid& grid, Value value) {
  double low = INFINITY, high = 0.0;
  for (const Layer& layer : grid.layers) {
    const auto v = value(*layer.tensor);
    if (!v || !std::isfinite(*v) || !(*v > 0.0)) continue;
    low = std::min(low, *v);
    high = std::max(high, *v);
  }
  const double cell = std::min(kMaxCell, (kRight - kLeft) / static_cast<double>(grid.blocks));
  svg.text(16.0, top + 16.0, title, "label strong");
  for (std::size_t k = 0; k < grid.kinds.size(); ++k)
    svg.text(kLeft - 8.0, top + kHead + 20.0 * static_cast<double>(k) + 14.0, grid.kinds[k], "tick", Svg::Anchor::kEnd);
  for (const Layer& layer : grid.layers) {
    const auto v = value(*layer.tensor);
    if (!v || !std::isfinite(*v)) continue;
    const auto row = std::find(grid.kinds.begin(), grid.kinds.end(), layer.name.kind) - grid.kinds.begin();
    const double share = *v > 0.0 && high > low ? std::log(*v / low) / std::log(high / low) : 0.0;
    svg.begin_item(fmt::format("{}: {}", layer.tensor->name, short_number(*v)));
    svg.rect(kLeft + cell * static_cast<double>(layer.name.block), top + kHead + 20.0 * static_cast<double>(row),
             cell - 1.0, 19.0, "cell", heat_colour(share));
    svg.end_item();
  }
  const double bottom = top + kHead + 20.0 * static_cast<double>(grid.kinds.size());
  const std::size_t step = std::max<std::size_t>(1, static_cast<std::size_t>(24.0 / cell));
  for (std::size_t block = 0; block < grid.blocks; block += step)
    svg.text(kLeft + cell * (static_cast<double>(block) + 0.5), bottom + 14.0, std::to_string(block), "tick",
             Svg::Anchor::kMiddle);
  svg.text(kLeft - 8.0, bottom + 14.0, "block", "tick", Svg::Anchor::kEnd);
  constexpr int kSteps = 24;
  for (int i = 0; i < kSteps; ++i)
    svg.rect(kRight + 14.0, top + kHead + 80.0 - 80.0 * (i + 1) / kSteps, 12.0, 80.0 / kSteps + 0.5, "cell",
             heat_colour((i + 0.5) / kSteps));
  svg.text(kRight + 31.0, top + kHead + 9.0, fmt::format("{:.2g}", high), "tick");
  svg.text(kRight + 31.0, top + kHead + 80.0, fmt::format("{:.2g}", low), "tick");
}

}  // namespace

std::optional<Figure> layer_figure(const Entry& entry) {
  const Grid grid = grid_of(entry);
  if (grid.layers.empty()) return std::nullopt;
  const bool outputs = has_values(grid, output_error), fisher = has_values(grid, sensitivity);
  if (!outputs && !has_values(grid, weight_error)) return std::nullopt;
  const double height = std::max(panel_height(grid), kHead + 90.0);
  Svg svg(kWidth, height * (fisher ? 2.0 : 1.0), "Error per layer");
  draw_panel(svg, 0.0, outputs ? "relative error of the layer's outputs" : "relative error of the weights", grid,
             outputs ? output_error : weight_error);
  if (fisher) draw_panel(svg, height, "Fisher-weighted error, Σ F (W − Ŵ)²: what it costs the loss", grid, sensitivity);
  Figure figure{.title = fmt::format("Error and sensitivity per layer: {}", entry.setting("recipe")),
                .caption = "Colours are on a logarithmic scale; yellow is the largest error.",
                .svg = svg.finish(),
                .data = {.title = "",
                         .caption = "",
                         .columns = {"layer", "bits/weight", "weight error", "output error", "Fisher-weighted error"},
                         .rows = {},
                         .warnings = {}}};
  const auto text = [](const std::optional<double>& value) {
    return value && std::isfinite(*value) ? short_number(*value) : std::string("–");
  };
  for (const Layer& layer : grid.layers)
    figure.data.rows.push_back({{.text = layer.tensor->name, .is_number = false},
                                {.text = fmt::format("{:.3f}", layer.tensor->bits_per_weight)},
                                {.text = text(layer.tensor->relative_weight_error)},
                                {.text = text(layer.tensor->output_error)},
                                {.text = text(layer.tensor->fisher_error)}});
  return figure;
}

}  // namespace nibble::eval

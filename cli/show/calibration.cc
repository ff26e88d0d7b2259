#include "cli/show/calibration.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "calib/stats/derived.h"
#include "calib/stats/stats_file.h"
#include "cli/terminal/human.h"
#include "cli/terminal/output.h"
#include "cli/terminal/table.h"
#include "core/text/json.h"

namespace nibble::cli {
namespace {

/// One line of the table; NaN where the file lacks the statistic, or saw no token.
struct LayerSummary {
  double mean_magnitude = std::numeric_limits<double>::quiet_NaN();    ///< mean of |x| over tokens and inputs
  double outlier_ratio = std::numeric_limits<double>::quiet_NaN();     ///< max |x| / rms
  double fisher_mass = std::numeric_limits<double>::quiet_NaN();       ///< sum of the mean Fisher matrix
  double effective_tokens = std::numeric_limits<double>::quiet_NaN();  ///< of the guided Hessian
  double dead_channels = std::numeric_limits<double>::quiet_NaN();     ///< inputs that were always 0
};

LayerSummary summarize(const calib::StatsFile& file, const std::string& module) {
  calib::StatisticSet wanted = file.settings().collected;
  wanted.hessian = wanted.guided_hessian = wanted.output_hessian = false;
  const calib::LayerStats layer = file.read(module, wanted);
  LayerSummary summary;
  if (layer.tokens == 0) return summary;  // an expert that no token chose
  if (wanted.activations) {
    const std::vector<double> magnitudes = calib::mean_magnitude(layer);
    summary.mean_magnitude =
        std::accumulate(magnitudes.begin(), magnitudes.end(), 0.0) / static_cast<double>(magnitudes.size());
    summary.outlier_ratio = calib::outlier_ratio(layer);
    summary.dead_channels = static_cast<double>(calib::dead_channels(layer).size());
  }
  if (file.settings().collected.guided_hessian) summary.effective_tokens = file.effective_tokens(module);
  if (wanted.fisher) {
    double sum = 0.0;
    for (const float value : layer.fisher.values()) sum += static_cast<double>(value);
    summary.fisher_mass = sum / static_cast<double>(layer.samples);
  }
  return summary;
}

std::string cell(double value, const char* format) {
  return std::isnan(value) ? "-" : fmt::format(fmt::runtime(format), value);
}

}  // namespace

void show_calibration(const std::filesystem::path& path, bool json) {
  const auto file = calib::StatsFile::open(path);
  const calib::RunSettings& run = file->settings();
  nlohmann::ordered_json object = {{"file", path.string()}, {"tokens", run.windows * run.window_tokens}};
  for (const auto& [name, value] : calib::describe(run)) object["settings"][name] = value;
  object["program"] = nullptr;
  if (!run.program.empty()) object["program"] = run.program;
  Table table({{"layer", Align::kLeft},
               {"out"},
               {"in"},
               {"tokens"},
               {"mean |x|"},
               {"max/rms"},
               {"Fisher mass"},
               {"guided tokens"},
               {"dead"}});
  for (const calib::LayerInfo& info : file->layers()) {
    const LayerSummary summary = summarize(*file, info.module);
    object["layers"].push_back({{"layer", info.module},
                                {"out", info.out},
                                {"in", info.in},
                                {"tokens", info.tokens},
                                {"mean_abs_x", summary.mean_magnitude},
                                {"outlier_ratio", summary.outlier_ratio},
                                {"fisher_mass", summary.fisher_mass},
                                {"effective_tokens", summary.effective_tokens},
                                {"dead_channels", summary.dead_channels}});
    table.add_row({info.module, fmt::format("{}", info.out), fmt::format("{}", info.in), with_separators(info.tokens),
                   cell(summary.mean_magnitude, "{:.4f}"), cell(summary.outlier_ratio, "{:.1f}"),
                   cell(summary.fisher_mass, "{:.4g}"), cell(summary.effective_tokens, "{:.0f}"),
                   cell(summary.dead_channels, "{:.0f}")});
  }
  if (json) return print_json(object);
  print(aligned_facts({
      {"file", path.string()},
      {"collected", calib::to_text(run.collected)},
      {"windows", fmt::format("{} of {} tokens, {}", with_separators(run.windows), run.window_tokens, run.sampling)},
      {"gradients", fmt::format("{} Fisher, labels {}, centre {}, guide {}", calib::to_text(run.flavour),
                                calib::to_text(run.labels), run.centre, calib::to_text(run.guide))},
      {"model", run.model_hash},
      {"kernels", run.kernels},
      {"program", run.program.empty() ? "unknown" : run.program},
  }));
  print(fmt::format("\n{}", table.text()));
  print(
      "max/rms: largest |x| over the root mean square; Fisher mass: sum of the mean Fisher matrix; guided tokens: how "
      "many of equal weight would tell as much as the guided Hessian's; dead: inputs that were always 0.\n");
}

}  // namespace nibble::cli

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "calib/collect/collector.h"
#include "datasets/calibration_windows.h"
#include "model/tokenizer/tokenizer.h"
#include "quant/job/statistics/calibration_source.h"
#include "quant/store/load_model.h"

namespace nibble::quant {

/// What is to be collected, and how: calib/stats/layer_stats.h has the sums, calib/stats/run_settings.h their choices.
struct CalibrateOptions {
  calib::StatisticSet collect{.activations = true, .fisher = true};
  calib::FisherFlavour fisher = calib::FisherFlavour::kSequence;
  calib::Labels labels = calib::Labels::kData;
  /// "none"; "own": gradients as if the mean input were in the bias; or a calibration file to take the means from.
  std::string centre = "none";
  std::optional<calib::Guide> guide = {};  ///< of guided and output Hessians; none: calib::default_guide()
  bool head = false;                       ///< the output layer too
};

/// Throws InvalidArgument for a guide where nothing is guided.
void check_guide(const CalibrateOptions& options);
/// Throws InvalidArgument for a model that is quantized already: nothing takes its statistics, as what is quantized is
/// its float model.
void check_model(const LoadedModel& model);

/// The calibration of `model` over `windows`, which came from `source`; run it with calib::calibrate(). The caller adds
/// memory, progress and team. `tokenizer` may be null where `source` has token ids. Model and windows must outlive it.
/// Throws InvalidArgument as both checks do, FormatError for a file of means.
calib::CalibrationJob calibration_job(const LoadedModel& model, const model::Tokenizer* tokenizer,
                                      const CalibrationSource& source, const datasets::CalibrationWindows& windows,
                                      const CalibrateOptions& options, const std::filesystem::path& output);

/// What whoever collected `file` should hear, a sentence each: the experts that its text chose so seldom that
/// quantizing will do without their statistics.
std::vector<std::string> warnings(const model::Architecture& architecture, const calib::StatsFile& file);

}  // namespace nibble::quant

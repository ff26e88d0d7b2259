#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "calib/collect/collector.h"
#include "datasets/calibration_windows.h"
#include "model/tokenizer/tokenizer.h"
#include "quant/store/load_model.h"

namespace nibble::quant {

/// Where the token windows of a calibration come from: texts to sample, or a file of token ids to cut.
struct CalibrationSource {
  std::vector<std::filesystem::path> text;     ///< .txt, .jsonl, also .gz and .zst
  std::filesystem::path tokens;                ///< .u16 or .u32, instead of text
  std::string field{datasets::kDefaultField};  ///< the text's key in .jsonl
  std::size_t length = 0;                      ///< tokens in a window; 0: 512, or the model's context if that is less
  std::size_t samples = 0;                     ///< windows; 0: 128 of text, all of a token file
  std::uint64_t seed = 0;                      ///< of whatever is sampled
};

/// Reads the windows for a model of `architecture`; `tokenizer` may be null with token ids. `model` is for messages.
/// Throws InvalidArgument, FormatError.
datasets::CalibrationWindows read_calibration_windows(const CalibrationSource& source,
                                                      const model::Architecture& architecture,
                                                      const model::Tokenizer* tokenizer,
                                                      const std::filesystem::path& model, const ProgressSink& progress);

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

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/progress.h"
#include "quant/job/plan/result.h"
#include "quant/job/statistics/calibration.h"
#include "quant/job/statistics/calibration_text.h"
#include "quant/recipe/recipe.h"

namespace nibble::quant {

struct QuantizeOptions {
  std::filesystem::path model;
  std::shared_ptr<const model::Checkpoint> checkpoint =
      nullptr;  ///< of `model`, where it is open already; null: it is opened
  std::filesystem::path output;
  Recipe recipe;
  std::vector<std::filesystem::path> calibration = {};  ///< calib.h5 files; each statistic from the first that has it
  std::optional<CalibrationText> text = {};             ///< with `sequential: true` or `tuning`, and only then
  std::vector<std::filesystem::path> sources = {};      ///< that `recipe` and `text` were read from: not to be replaced
  calib::StatisticSet statistics = kAllStatistics;      ///< of the files: others count as absent
  bool overwrite = false;                               ///< replace an existing output directory
  std::uint64_t memory_bytes = std::uint64_t{4} << 30;  ///< for weights in work; for activations before scratch files
  ProgressSink progress = {};                           ///< in weights; calls take turns with those of tensor_done
  TensorSink tensor_done = {};
};

/// Quantizes a float checkpoint: the one data flow behind `nibble quantize`.
///
/// Output   the directory of docs/formats.md: model.safetensors, config.json with a quantization_config,
///          quantization.json, and the tokenizer's files. It appears under its name only when complete; until then it
///          is OUTPUT.partial, in which a killed run leaves the weights it finished. The next run with the same model
///          and recipe, and calibration files of the same bytes, goes on from there, and ends in the same bytes (but
///          for the seconds in quantization.json); any other starts afresh.
/// Threads  all: several weights at once, or one of which memory holds no second; the bytes do not depend on their
///          number.
/// Memory   memory_bytes of anonymous memory for weights in work and their statistics, however many threads. What a
///          weight needs beyond that lies in mapped files in OUTPUT.partial, which the system writes out where it has
///          no room (docs/results/large.md). Weights whose rows do not regard each other, and those that share a
///          palette and nothing else, are worked on a few rows at a time: 5 bytes for each of 8 Mi weights, and what is
///          stored.
/// Throws   InvalidArgument: the recipe asks for what this version cannot do or for statistics that no calibration file
///          holds (with the command that collects them), a calibration of another model, the model is quantized
///          already, the output exists and !overwrite, is the model itself or holds it, a calibration file or a source.
///          NumericalError: a NaN or infinite weight (tensor and first index), a value that float16 cannot hold.
///          FormatError: files.
QuantizeResult quantize_model(const QuantizeOptions& options);

}  // namespace nibble::quant

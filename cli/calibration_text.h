#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/progress.h"
#include "datasets/calibration_windows.h"
#include "model/architecture/architecture.h"
#include "model/tokenizer/tokenizer.h"

namespace nibble::cli {

/// Which token windows of which text a command runs a model over: --text or --tokens, and how they are sampled.
struct CalibrationTextOptions {
  std::vector<std::string> text;
  std::filesystem::path tokens;
  std::string field = "text", memory = "4G";
  std::uint64_t length = 0, samples = 0, seed = 0;
  bool given() const { return !text.empty() || !tokens.empty(); }
};
void add_calibration_text(CLI::App& app, CalibrationTextOptions& options);

/// Reads the windows for a model of `architecture`; `tokenizer` may be null with --tokens. `model` is for messages.
/// Throws InvalidArgument, FormatError.
datasets::CalibrationWindows read_calibration_windows(const CalibrationTextOptions& options,
                                                      const model::Architecture& architecture,
                                                      const model::Tokenizer* tokenizer,
                                                      const std::filesystem::path& model, const ProgressSink& progress);

}  // namespace nibble::cli

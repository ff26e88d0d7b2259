#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "quant/job/statistics/calibration_source.h"

namespace nibble::cli {

/// Which token windows of which text a command runs a model over: --text or --tokens, and how they are sampled.
struct CalibrationTextOptions {
  std::vector<std::string> text;
  std::filesystem::path tokens;
  std::string field{datasets::kDefaultField}, memory = "4G";
  std::uint64_t length = 0, samples = 0, seed = 0;
  bool bos = false;
  quant::CalibrationSource source() const;
  bool given() const { return !text.empty() || !tokens.empty(); }
};
void add_calibration_text(CLI::App& app, CalibrationTextOptions& options);
/// Throws InvalidArgument for options of sampled texts beside --tokens, whose windows are taken as they stand, for any
/// without a text, and for a text that is given twice. `seeds_more`: --seed decides more than the sampling.
void check_calibration_text(const CLI::App& app, const CalibrationTextOptions& options, bool seeds_more);

}  // namespace nibble::cli

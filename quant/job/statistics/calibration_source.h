#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/progress.h"
#include "datasets/calibration_windows.h"
#include "model/architecture/architecture.h"
#include "model/tokenizer/tokenizer.h"
#include "quant/job/statistics/calibration_text.h"

namespace nibble::quant {

/// Where token windows come from: texts to sample, or a file of token ids to cut.
struct CalibrationSource {
  std::vector<std::filesystem::path> text;     ///< .txt, .jsonl, also .gz and .zst
  std::filesystem::path tokens;                ///< .u16 or .u32, instead of text
  std::string field{datasets::kDefaultField};  ///< the text's key in .jsonl
  std::size_t length = 0;                      ///< tokens in a window; 0: 512, or the model's context if that is less
  std::size_t samples = 0;                     ///< windows; 0: 128 of text, all of a token file
  std::uint64_t seed = 0;                      ///< of whatever is sampled
  bool bos = false;  ///< each window begins with the tokenizer's BOS in place of its own first token

  bool needs_tokenizer() const { return tokens.empty() || bos; }
  /// How the windows are taken, for RunSettings::sampling.
  std::string sampling() const;
};

/// Reads the windows for a model of `architecture`; `tokenizer` may be null where source.needs_tokenizer() does not.
/// `model` is for messages. Throws InvalidArgument, FormatError.
datasets::CalibrationWindows read_calibration_windows(const CalibrationSource& source,
                                                      const model::Architecture& architecture,
                                                      const model::Tokenizer* tokenizer,
                                                      const std::filesystem::path& model, const ProgressSink& progress);

/// The text for quantizing `model`, and what its user should hear of it, a sentence each. Errors as above.
struct ReadText {
  CalibrationText text;
  std::vector<std::string> warnings;
};
ReadText read_calibration_text(const CalibrationSource& source, const std::filesystem::path& model,
                               const ProgressSink& progress);

}  // namespace nibble::quant

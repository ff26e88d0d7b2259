#include "quant/job/statistics/calibration_source.h"

#include <algorithm>
#include <utility>

#include "calib/stats/run_settings.h"
#include "core/error.h"
#include "model/architecture/architecture.h"
#include "model/open/open_model.h"
#include "model/tokenizer/required_bos.h"

namespace nibble::quant {
namespace {

datasets::CalibrationWindows windows_as_they_stand(const CalibrationSource& source,
                                                   const model::Architecture& architecture,
                                                   const model::Tokenizer* tokenizer,
                                                   const std::filesystem::path& model, const ProgressSink& progress) {
  const datasets::SamplingOptions usual;
  const std::size_t length = source.length > 0 ? source.length : std::min(usual.length, architecture.max_positions);
  if (!source.tokens.empty())
    return datasets::fixed_calibration_windows(source.tokens, architecture.vocabulary, length, source.samples);
  NIBBLE_REQUIRE(
      tokenizer != nullptr, FormatError,
      "calibration text: '{}' has no tokenizer; give token ids in place of text (`tokens` in a sweep, --tokens FILE)",
      model.string());
  return datasets::sample_calibration_windows(source.text, *tokenizer,
                                              {.samples = source.samples > 0 ? source.samples : usual.samples,
                                               .length = length,
                                               .seed = source.seed,
                                               .field = source.field,
                                               .progress = progress});
}

}  // namespace

std::string CalibrationSource::sampling() const {
  return std::string(tokens.empty() ? calib::kRandomSlices : calib::kConsecutiveWindows) +
         (bos ? std::string(calib::kBehindBos) : "");
}

datasets::CalibrationWindows read_calibration_windows(const CalibrationSource& source,
                                                      const model::Architecture& architecture,
                                                      const model::Tokenizer* tokenizer,
                                                      const std::filesystem::path& model,
                                                      const ProgressSink& progress) {
  datasets::CalibrationWindows windows = windows_as_they_stand(source, architecture, tokenizer, model, progress);
  if (!source.bos) return windows;
  const TokenId bos = model::required_bos(tokenizer);
  NIBBLE_REQUIRE(bos < architecture.vocabulary, InvalidArgument,
                 "bos: the tokenizer's BOS {} is outside the model's vocabulary of {}", bos, architecture.vocabulary);
  for (std::size_t i = 0; i < windows.samples; ++i) windows.tokens[i * windows.length] = bos;
  return windows;
}

ReadText read_calibration_text(const CalibrationSource& source, const std::filesystem::path& model,
                               const ProgressSink& progress) {
  const auto checkpoint = model::open_checkpoint(model);
  const auto tokenizer = source.needs_tokenizer() ? model::open_tokenizer_if_any(model) : nullptr;
  datasets::CalibrationWindows windows =
      read_calibration_windows(source, checkpoint->architecture(), tokenizer.get(), model, progress);
  std::vector<std::string> warnings = datasets::warnings(windows);
  if (auto warning = model::warning_of_length(checkpoint->architecture(), windows.length))
    warnings.push_back(std::move(*warning));
  return {{.tokens = std::move(windows.tokens),
           .window_tokens = windows.length,
           .fingerprint = windows.fingerprint,
           .behind_bos = source.bos},
          std::move(warnings)};
}

}  // namespace nibble::quant

#include "cli/calibration_text.h"

#include <algorithm>

#include "cli/options.h"
#include "core/error.h"

namespace nibble::cli {
namespace {

constexpr std::uint64_t kDefaultSamples = 128, kDefaultLength = 512;

}  // namespace

void add_calibration_text(CLI::App& app, CalibrationTextOptions& options) {
  app.add_option("--text", options.text, "Texts to sample from: .txt, .jsonl, also .gz and .zst")->type_name("FILE…");
  add_path(app, "--tokens", options.tokens, "FILE", "Consecutive windows of token ids (.u16, .u32) instead");
  app.add_option("--field", options.field, "The text's key in .jsonl")->type_name("NAME")->capture_default_str();
  add_count(app, "--length", options.length, "Tokens in a window [default: 512, or the model's context]",
            {.low = 2, .high = 1 << 24});
  add_count(app, "--samples", options.samples, "Windows to take [default: 128; with --tokens all]",
            {.low = 1, .high = 1 << 30});
  add_count(app, "--seed", options.seed, "Seed of whatever is sampled", {.low = 0});
  app.add_option("--memory", options.memory, "Memory to use, like 512M or 4G; beyond it goes to a scratch file")
      ->type_name("SIZE")
      ->capture_default_str();
}

datasets::CalibrationWindows read_calibration_windows(const CalibrationTextOptions& options,
                                                      const model::Architecture& architecture,
                                                      const model::Tokenizer* tokenizer,
                                                      const std::filesystem::path& model,
                                                      const ProgressSink& progress) {
  const std::size_t length =
      options.length > 0 ? options.length : std::min<std::size_t>(kDefaultLength, architecture.max_positions);
  if (!options.tokens.empty())
    return datasets::fixed_calibration_windows(options.tokens, architecture.vocabulary, length, options.samples);
  NIBBLE_REQUIRE(tokenizer != nullptr, FormatError, "--text: '{}' has no tokenizer; give token ids with --tokens",
                 model.string());
  const std::vector<std::filesystem::path> files(options.text.begin(), options.text.end());
  return datasets::sample_calibration_windows(files, *tokenizer,
                                              {.samples = options.samples > 0 ? options.samples : kDefaultSamples,
                                               .length = length,
                                               .seed = options.seed,
                                               .field = options.field,
                                               .progress = progress});
}

}  // namespace nibble::cli

#include "cli/arguments/calibration_text.h"

#include <algorithm>

#include "cli/arguments/options.h"
#include "core/error.h"
#include "core/files/file_identity.h"
#include "datasets/document_reader.h"

namespace nibble::cli {
void add_calibration_text(CLI::App& app, CalibrationTextOptions& options) {
  check_path(app.add_option("--text", options.text,
                            "Texts to sample from: .txt, .raw, .jsonl, .ndjson, .json, also .gz and .zst"))
      ->type_name("FILE…");
  add_path(app, "--tokens", options.tokens, "FILE", "Consecutive windows of token ids (.u16, .u32) instead");
  app.add_option("--field", options.field, "The text's key in .jsonl")->type_name("NAME")->capture_default_str();
  add_count(app, "--length", options.length, "Tokens in a window [default: 512, or the model's context]",
            {.low = 2, .high = 1 << 24});
  add_count(app, "--samples", options.samples, "Windows to take [default: 128; with --tokens all]",
            {.low = 1, .high = 1 << 30});
  add_count(app, "--seed", options.seed, "Seed of whatever is sampled [default: 0]", {.low = 0});
  app.add_flag("--bos", options.bos,
               "Windows begin with the tokenizer's BOS, in place of their own first token; evaluate with it too");
  app.add_option("--memory", options.memory, "Memory to use, like 512M or 4G; beyond it goes to a scratch file")
      ->type_name("SIZE")
      ->capture_default_str();
}

quant::CalibrationSource CalibrationTextOptions::source() const {
  return {.text = {text.begin(), text.end()},
          .tokens = tokens,
          .field = field,
          .length = length,
          .samples = samples,
          .seed = seed,
          .bos = bos};
}

void check_calibration_text(const CLI::App& app, const CalibrationTextOptions& options, bool seeds_more) {
  NIBBLE_REQUIRE(options.text.empty() || options.tokens.empty(), InvalidArgument,
                 "{}: expected either --text or --tokens, got both", app.get_name());
  refuse_repeated_files(options.text);
  if (!options.given())
    refuse_given(app, {"--field", "--length", "--samples", "--seed", "--bos"}, "no --text and no --tokens");
  if (!options.tokens.empty()) refuse_given(app, {"--field"}, "--tokens");
  const bool field = app.get_option("--field")->count() > 0;  // else names of files are looked at when they are read
  if (field && std::none_of(options.text.begin(), options.text.end(), datasets::holds_json_lines))
    refuse_given(app, {"--field"}, "texts that are not JSON lines");
  if (!options.tokens.empty() && !seeds_more) refuse_given(app, {"--seed"}, "--tokens");
}

}  // namespace nibble::cli

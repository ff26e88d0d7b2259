#include <gtest/gtest.h>

#include <string>

#include "export/export_checkpoint.h"
#include "quant/recipe/recipe.h"
#include "tests/export/directory_support.h"
#include "tests/export/gguf_support.h"
#include "tests/quant/job/calibrated_models.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"

// Presets whose codes are solved for stay within what the programs hold that they are made for.

namespace nibble::test {
namespace {

struct SolvedCase {
  const char *preset, *format, *output;
};
constexpr SolvedCase kSolvedCases[] = {
    {"iq4_nl-solved", "gguf", "out.gguf"},
    {"gguf-q4_0-solved", "gguf", "out.gguf"},
    {"gguf-q5_0-solved", "gguf", "out.gguf"},
    {"iq4_xs-solved", "gguf", "out.gguf"},
    {"gguf-q3_k-solved", "gguf", "out.gguf"},
    {"mlx-4bit-solved", "mlx", "out"},
    {"compressed-tensors-4bit-solved", "gptq", "out"},
    {"compressed-tensors-4bit-solved", "compressed-tensors", "out"},
    {"ane-palette-solved", "coreml", "out.mlpackage"},
};

TEST(SolvedPresets, FitTheProgramsThatTheyAreFor) {
  const TempDir dir;
  write_small_llama(
      dir / "model",
      {{"hidden_size", 256}, {"intermediate_size", 256}, {"num_attention_heads", 8}, {"num_key_value_heads", 8}});
  write_calibration(dir / "calib.h5", dir / "model");
  for (const SolvedCase& one : kSolvedCases) {
    SCOPED_TRACE(testing::Message() << one.preset << " for " << one.format);
    const quant::Recipe recipe = quant::Recipe::preset(one.preset);
    EXPECT_NO_THROW(exporting::require_exportable(exporting::find_exporter(one.format), dir / "model", recipe));
    quant::quantize_model({.model = dir / "model",
                           .output = dir / "q",
                           .recipe = recipe,
                           .calibration = {dir / "calib.h5"},
                           .text = random_text(5, 4, 32, 300),
                           .overwrite = true});
    const exporting::ExportResult result = export_to(one.format, dir / "q", dir / one.output);
    EXPECT_EQ(result.coded, 2u * 7u);
    EXPECT_EQ(result.read_back.rounded, 0u);
  }
}

}  // namespace
}  // namespace nibble::test

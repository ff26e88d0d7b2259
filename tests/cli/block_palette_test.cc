#include <gmock/gmock.h>

#include <string>
#include <tuple>

#include "tests/cli/nibble.h"
#include "tests/support/compare.h"

namespace nibble::test {
namespace {

using testing::HasSubstr;

// Palettes that blocks scale, all the way: quantize -> inspect -> perplexity, packed and not -> export.
class BlockPalettes : public testing::TestWithParam<const char*> {
 protected:
  double perplexity(const std::string& directory, const std::string& compute = "reference") {
    return nibble_json({"perplexity", directory, "--text", demo_path("eval.txt"), "--max-tokens", "1000", "--compute",
                        compute})["perplexity"];
  }
  TempDir temp;
  std::string model = demo_path(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Models, BlockPalettes, testing::Values("gpt2-demo", "llama-demo"));

TEST_P(BlockPalettes, RoundTrip) {
  const double before = perplexity(model);
  for (const auto& [preset, text, bits] : {std::tuple("nf4", "block-palette nf4 64", 4.25),
                                           {"iq4_nl", "block-palette iq4_nl 32", 4.5},
                                           {"mxfp4", "block-palette fp4 32 e8m0 scales", 4.25},
                                           {"nvfp4", "block-palette fp4 16 e4m3 scales", 4.5}}) {
    SCOPED_TRACE(preset);
    const std::string directory = temp / preset;
    const auto quantized = nibble_json({"quantize", model, "-o", directory, "--preset", preset});
    // Rows of whole blocks: what a code and its share of a scale take, and NVFP4's 32 bits a tensor.
    EXPECT_TRUE(near(quantized["bits_per_weight"].get<double>(), bits, {.abs = 0.01}));
    const auto shown = nibble_json({"inspect", directory});
    EXPECT_EQ(shown["bits_per_weight"], quantized["bits_per_weight"]);
    EXPECT_THAT(shown["method"].get<std::string>(), HasSubstr(text));
    EXPECT_THAT(shown["recipe"].get<std::string>(), HasSubstr("format: block-palette"));
    const double after = perplexity(directory);
    EXPECT_LT(after, 1.2 * before);
    EXPECT_TRUE(near(perplexity(directory, "exact"), after, {.rel = 1e-4}));  // sums in another order
    if (text != std::string("block-palette fp4 16 e4m3 scales")) continue;    // the rest once: time
    EXPECT_TRUE(near(perplexity(directory, "int8"), after, {.rel = 0.02}));   // activations in 8 bits
    nibble_json({"export", directory, "--format", "dequantized", "--dtype", "float32", "-o", directory + "-floats"});
    EXPECT_TRUE(near(perplexity(directory + "-floats"), after, {.rel = 1e-6}));
  }
}

TEST_P(BlockPalettes, LearnedOnesTakeABudget) {
  ASSERT_EQ(nibble({"calibrate", model, "--text", demo_path("calibration.txt"), "--samples", "4", "--length", "64",
                    "--collect", "fisher", "-o", temp / "c.h5"})
                .exit_code,
            0);
  const auto made = nibble_json({"quantize", model,
                                 "-o",       temp / "q",
                                 "--set",    "format=block-palette",
                                 "--set",    "group_size=64",
                                 "--set",    "weighting=fisher",
                                 "--set",    "search=weighted",
                                 "--set",    "joint_iterations=2",
                                 "--set",    "budget.bits_per_weight=3.4",
                                 "--set",    "budget.bits=2,3,4",
                                 "--calib",  temp / "c.h5"});
  EXPECT_LE(made["bits_per_weight"].get<double>(), 3.4);
  EXPECT_GT(made["bits_per_weight"].get<double>(), 3.2);
  EXPECT_EQ(made["budget"]["tensors"][0]["candidates"].size(), 3u);
}

TEST_P(BlockPalettes, OtherFormatsRefuseThemByName) {
  ASSERT_EQ(nibble({"quantize", model, "-o", temp / "q", "--preset", "nf4"}).exit_code, 0);
  for (const auto& [format, output, reason] :
       {std::tuple("coreml", "x.mlpackage", "palettes that blocks of inputs scale"),
        {"gguf", "x.gguf", "IQ4_NL's with float16 and MXFP4's with e8m0"},
        {"mlx", "mlx", "no palettes that blocks scale"},
        {"gptq", "gptq", "no palettes that blocks scale"},
        {"awq", "awq", "no palettes that blocks scale"}}) {
    const ProgramRun run = nibble({"export", temp / "q", "--format", format, "-o", temp / output});
    EXPECT_EQ(run.exit_code, 2) << format;
    EXPECT_THAT(run.err, HasSubstr(reason));
    EXPECT_THAT(run.err, HasSubstr("block-palette nf4 64"));
  }
}

}  // namespace
}  // namespace nibble::test

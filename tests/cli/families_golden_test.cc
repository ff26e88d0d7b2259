#include <fstream>
#include <string>

#include "core/random.h"
#include "tests/cli/nibble.h"
#include "tests/support/compare.h"
#include "tests/support/golden_families.h"
#include "tests/support/sanitizers.h"

// Every golden family through the commands, as a user would take a checkpoint of his: calibrate, quantize by four
// presets, packed perplexity, evaluate, export and back.

namespace nibble::test {
namespace {

constexpr std::size_t kWindow = 48, kTokens = 1536;

std::string write_tokens(const TempDir& dir) {
  const auto path = dir / "text.u16";
  std::ofstream file(path, std::ios::binary);
  Random random(20);
  for (std::size_t i = 0; i < kTokens; ++i) {
    const std::uint64_t token = 4 + random.below(316);
    file.put(static_cast<char>(token & 255)).put(static_cast<char>(token >> 8));
  }
  return path;
}

class FamilyCommands : public testing::TestWithParam<const char*> {
 protected:
  double perplexity(const std::string& of, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"perplexity", of, "--tokens", tokens, "--context", "48", "--max-tokens", "480"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return nibble_json(arguments)["perplexity"];
  }
  TempDir dir;
  std::string tokens = write_tokens(dir), model = golden_family(GetParam()), calibration = dir / "calib.h5";
};

TEST_P(FamilyCommands, TakeACheckpointThereAndBack) {
  NIBBLE_NEEDS_FAMILY(GetParam());
  if (kAddressSanitizer && std::string(GetParam()) != "gpt_oss" && std::string(GetParam()) != "phi3")
    GTEST_SKIP() << "under ASan two families run; the release build runs all";
  ASSERT_EQ(nibble({"calibrate", model, "--tokens", tokens, "--length", std::to_string(kWindow), "--samples", "16",
                    "--collect", "activations,fisher,hessian,guided-hessian,output-hessian", "-o", calibration})
                .exit_code,
            0);
  const double before = perplexity(model);
  for (const std::string preset : {"whole-tensor", "scalar", "int4-block", "gptq"}) {
    SCOPED_TRACE(preset);
    const std::string quantized = dir / preset, exported = dir / (preset + "-f16");
    std::vector<std::string> arguments{"quantize", model, "--preset", preset, "-o", quantized};
    if (preset != "int4-block") arguments.insert(arguments.end(), {"--calib", calibration});
    if (preset == "scalar")
      arguments.insert(arguments.end(), {"--tokens", tokens, "--length", std::to_string(kWindow), "--samples", "16"});
    const auto written = nibble_json(arguments);
    EXPECT_LT(written["bits_per_weight"].get<double>(), 9.0);  // palettes and scales weigh much at a width of 32
    const double reference = perplexity(quantized);
    // The same values, multiplied in another order: 2^-24 a few hundred times per logit.
    EXPECT_TRUE(near(perplexity(quantized, {"--compute", "exact"}), reference, {.rel = 1e-5}));
    // Activations in 8 bits, in a model of 32 channels with generous random weights: a few per cent.
    EXPECT_TRUE(near(perplexity(quantized, {"--compute", "int8"}), reference, {.rel = 0.1}));
    EXPECT_FALSE(near(reference, before, {.rel = 1e-9})) << "quantizing changed nothing";
    ASSERT_EQ(nibble({"export", quantized, "--format", "dequantized", "-o", exported}).exit_code, 0);
    // Rounded to float16: 2^-11 per weight, which may turn a close choice of experts.
    EXPECT_TRUE(near(perplexity(exported), reference, {.rel = 0.02}));
  }
  const auto evaluated =
      nibble_json({"evaluate", dir / "int4-block", "--tokens", tokens, "--max-tokens", "240", "--context", "48",
                   "--reference", model, "--prompt", "16", "--generate", "4", "--skip-limits"});
  EXPECT_GT(evaluated["perplexity"].get<double>(), 1.0);
}

INSTANTIATE_TEST_SUITE_P(, FamilyCommands, testing::ValuesIn(kGoldenFamilies), family_test_name);

}  // namespace
}  // namespace nibble::test

#include <gmock/gmock.h>

#include <string>

#include "tests/cli/nibble.h"
#include "tests/support/compare.h"

namespace nibble::test {
namespace {

// quantize -> inspect -> perplexity -> export -> perplexity, as a user would.
class RoundTrip : public testing::TestWithParam<const char*> {
 protected:
  double perplexity(const std::string& directory) {
    return nibble_json(
        {"perplexity", directory, "--text", demo_path("eval.txt"), "--max-tokens", "1500"})["perplexity"];
  }
  TempDir temp;
  std::string model = demo_path(GetParam());
};

TEST_P(RoundTrip, InspectShowsWhatQuantizeWrote) {
  const auto written = nibble_json({"quantize", model, "--set", "granularity=channel", "-o", temp / "q"});
  const auto shown = nibble_json({"inspect", temp / "q"});
  EXPECT_EQ(shown["bits_per_weight"], written["bits_per_weight"]);
  EXPECT_EQ(shown["model_bits_per_weight"], written["model_bits_per_weight"]);
  EXPECT_THAT(shown["method"].get<std::string>(), testing::HasSubstr("palette 4-bit channel"));
  EXPECT_THAT(shown["recipe"].get<std::string>(), testing::HasSubstr("granularity: channel"));
  const auto before = nibble_json({"inspect", model});
  EXPECT_EQ(shown["parameters"], before["parameters"]);
  EXPECT_EQ(shown["architecture"], before["architecture"]);
  EXPECT_LT(shown["bytes"], before["bytes"]);
  EXPECT_TRUE(before["recipe"].is_null());
}

TEST_P(RoundTrip, QuantizingCostsSomePerplexityAndExportingNone) {
  ASSERT_EQ(nibble({"quantize", model, "--set", "bits=3", "-o", temp / "q"}).exit_code, 0);
  const double before = perplexity(model), quantized = perplexity(temp / "q");
  EXPECT_GT(quantized, before);
  EXPECT_LT(quantized, 2.0 * before);

  const auto exported = nibble_json({"export", temp / "q", "--format", "dequantized", "-o", temp / "f16"});
  EXPECT_EQ(exported["format"], "dequantized");
  EXPECT_GT(exported["tensor_bytes"], 0);
  // Palettes are float16 and rows have no scales: float16 holds every decoded value exactly. GPT-2's are stored (in,
  // out) there, and summed in another order on some tiers.
  const double rounding = model.ends_with("gpt2-demo") ? 1e-6 : 0.0;
  EXPECT_TRUE(near(perplexity(temp / "f16"), quantized, {.rel = rounding}));
  EXPECT_EQ(nibble_json({"inspect", temp / "f16"})["method"], "float16");
}

INSTANTIATE_TEST_SUITE_P(Models, RoundTrip, testing::Values("gpt2-demo", "llama-demo"));

TEST(Export, RefusesWhatItCannotDo) {
  const TempDir temp;
  const ProgramRun format = nibble({"export", demo_path("gpt2-demo"), "--format", "dequantised", "-o", temp / "x"});
  EXPECT_EQ(format.exit_code, 2);
  EXPECT_THAT(format.err, testing::HasSubstr("did you mean 'dequantized'?"));
  for (const auto& [one, name] : {std::pair{"gguf", "x.gguf"}, {"coreml", "x.mlpackage"}}) {
    const ProgramRun context =
        nibble({"export", demo_path("gpt2-demo"), "--format", one, "-o", temp / name, "--context", "0"});
    EXPECT_EQ(context.exit_code, 2) << one;
    EXPECT_THAT(context.err, testing::HasSubstr("--context"));
  }
  EXPECT_EQ(nibble({"export", temp / "nothing", "-o", temp / "x"}).exit_code, 3);
  ASSERT_EQ(nibble({"quantize", demo_path("gpt2-demo"), "-o", temp / "q"}).exit_code, 0);
  ASSERT_EQ(nibble({"export", temp / "q", "-o", temp / "f16"}).exit_code, 0);
  EXPECT_EQ(nibble({"export", temp / "q", "-o", temp / "f16"}).exit_code, 2);
  EXPECT_EQ(nibble({"export", temp / "q", "-o", temp / "f16", "--overwrite"}).exit_code, 0);
  std::filesystem::create_directory(temp / "mine");
  write_file(temp / "mine/letter.txt", "not a checkpoint");
  EXPECT_EQ(nibble({"export", temp / "q", "-o", temp / "mine", "--overwrite"}).exit_code, 2);
  EXPECT_TRUE(std::filesystem::exists(temp / "mine/letter.txt"));
}

TEST(Inspect, TableShowsEveryTensor) {
  const ProgramRun run = nibble({"inspect", demo_path("gpt2-demo")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  for (const char* words : {"architecture", "bits per weight", "wte.weight", "h.3.mlp.c_proj.bias", "128 x 512"})
    EXPECT_THAT(run.out, testing::HasSubstr(words));
}

TEST(Inspect, BadCheckpointsAreFileErrors) {
  const TempDir temp;
  EXPECT_EQ(nibble({"inspect", temp.path().string()}).exit_code, 3);
  write_file(temp / "config.json", "{}");
  const ProgramRun run = nibble({"inspect", temp.path().string()});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, testing::HasSubstr(temp.path().string()));
}

}  // namespace
}  // namespace nibble::test

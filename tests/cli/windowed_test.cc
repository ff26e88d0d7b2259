#include <gmock/gmock.h>

#include <string>
#include <tuple>

#include "tests/cli/nibble.h"
#include "tests/support/compare.h"

namespace nibble::test {
namespace {

using testing::HasSubstr;

// A palette read through windows, all the way: quantize -> inspect -> perplexity, packed and not -> export.
class Windowed : public testing::TestWithParam<const char*> {
 protected:
  double perplexity(const std::string& directory, const std::string& compute = "reference") {
    return nibble_json({"perplexity", directory, "--text", demo_path("eval.txt"), "--max-tokens", "1000", "--compute",
                        compute})["perplexity"];
  }
  TempDir temp;
  std::string model = demo_path(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Models, Windowed, testing::Values("gpt2-demo", "llama-demo"));

TEST_P(Windowed, RoundTrip) {
  const std::vector<std::string> common{"--set", "bits=3", "--set", "scaling=std"};
  const auto quantized = [&](const std::string& output, std::vector<std::string> more) {
    std::vector<std::string> arguments{"quantize", model, "-o", temp / output};
    arguments.insert(arguments.end(), common.begin(), common.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    return nibble_json(arguments);
  };
  const auto scalar = quantized("scalar", {});
  const auto windowed = quantized("windowed", {"--set", "window_bits=6"});
  double scalar_error = 0.0, windowed_error = 0.0;
  for (std::size_t t = 0; t < scalar["tensors"].size(); ++t) {
    scalar_error += scalar["tensors"][t]["relative_weight_error"].get<double>();
    windowed_error += windowed["tensors"][t]["relative_weight_error"].get<double>();
  }
  EXPECT_LT(windowed_error, 0.92 * scalar_error);  // squared: 1.5 dB of the 1.53 that there are, less short columns

  const auto shown = nibble_json({"inspect", temp / "windowed"});
  EXPECT_EQ(shown["bits_per_weight"], windowed["bits_per_weight"]);
  EXPECT_THAT(shown["method"].get<std::string>(), HasSubstr("palette 3-bit window-6 tensor"));
  EXPECT_THAT(shown["recipe"].get<std::string>(), HasSubstr("window_bits: 6"));

  const double before = perplexity(model), after = perplexity(temp / "windowed");
  EXPECT_GT(after, before);
  EXPECT_LT(after, 2.0 * before);
  EXPECT_TRUE(near(perplexity(temp / "windowed", "exact"), after, {.rel = 1e-4}));  // sums in another order

  const auto exported = nibble_json(
      {"export", temp / "windowed", "--format", "dequantized", "--dtype", "float32", "-o", temp / "floats"});
  EXPECT_EQ(exported["format"], "dequantized");
  EXPECT_TRUE(near(perplexity(temp / "floats"), after, {.rel = 1e-6}));
}

TEST_P(Windowed, OtherFormatsRefuseItByName) {
  ASSERT_EQ(nibble({"quantize", model, "-o", temp / "q", "--set", "bits=2", "--set", "window_bits=5"}).exit_code, 0);
  for (const auto& [format, output, reason] :
       {std::tuple("coreml", "x.mlpackage", "codes that overlap"), {"gguf", "x.gguf", "it has no palettes"}}) {
    const ProgramRun run = nibble({"export", temp / "q", "--format", format, "-o", temp / output});
    EXPECT_EQ(run.exit_code, 2) << format;
    EXPECT_THAT(run.err, HasSubstr(reason));
    EXPECT_THAT(run.err, HasSubstr("window-5"));
  }
}

}  // namespace
}  // namespace nibble::test

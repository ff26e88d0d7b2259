// The trained models that come with the repository, from end to end.
#include <gtest/gtest.h>

#include <cmath>

#include "quant/job/quantize_model.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/files.h"

namespace nibble::quant {
namespace {

// ||actual - expected|| / ||expected|| over all logits.
double relative_error(const std::vector<float>& actual, const std::vector<float>& expected) {
  double error = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error += std::pow(static_cast<double>(actual[i]) - static_cast<double>(expected[i]), 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(error / norm);
}

TEST(DemoModels, KeepTheirLogitsTheBetterTheMoreBits) {
  for (const auto model : {"gpt2-demo", "llama-demo"}) {
    const test::TempDir dir;
    const auto source = test::source_path("datasets/demo") / model;
    const auto expected = test::logits_of_model(source);
    double previous = 1.0;
    for (const auto section : {"{bits: 2}", "{bits: 3}", "{bits: 4}", "{bits: 4, granularity: channel}", "{bits: 6}"}) {
      quantize_model({.model = source,
                      .output = dir / "out",
                      .recipe = Recipe::parse("defaults: " + std::string(section), "recipe"),
                      .overwrite = true,
                      .progress = {}});
      const double error = relative_error(test::logits_of_model(dir / "out"), expected);
      EXPECT_LT(error, previous) << model << " " << section;
      previous = error;
    }
    EXPECT_LT(previous, 0.02) << model << ": six bits leave little";
  }
}

}  // namespace
}  // namespace nibble::quant

// Weights multiplied packed against weights decoded from the file: the perplexities of the shared models.
#include <gtest/gtest.h>

#include <string>

#include "datasets/token_file.h"
#include "eval/quality/perplexity.h"
#include "quant/job/quantize_model.h"
#include "quant/store/load_model.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"

namespace nibble::quant {
namespace {

constexpr const char* kTokens = "golden/windows/test-78x512.u16";

#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kWindows = 1;
#else
constexpr std::size_t kWindows = 4;
#endif

struct Recipes {
  const char* name;
  const char* text;
};
void PrintTo(const Recipes& recipe, std::ostream* out) { *out << recipe.name; }

// Every kind of packed weight: panels with one palette, rows with their own, blocks with and without zero points, with
// row scales, outliers, and (gpt2-novels) biases beside them; in `everything` the embedding, and with it the head.
constexpr Recipes kRecipes[] = {
    {"int4", "{defaults: {format: int4-block}}"},
    {"int4_zeros", "{defaults: {format: int4-block, int4_scale: minmax, zero_point: true}}"},
    {"uniform8", "{defaults: {format: uniform, bits: 8}}"},
    {"palette4_tensor", "{defaults: {bits: 4}}"},
    {"palette3_row", "{defaults: {bits: 3, granularity: channel}}"},
    {"palette4_scaled_outliers", "{defaults: {bits: 4, scaling: std, outliers_large: 0.005}}"},
    {"everything", "{defaults: {bits: 2}, layers: [{match: 'wte|embed_tokens', format: int4-block}]}"},
};

class PackedModel : public testing::TestWithParam<std::tuple<Recipes, const char*>> {};

// Windows through the decoder and the matrix library, and a text of no more than 32 tokens through the kernels.
TEST_P(PackedModel, HasThePerplexityOfTheReferenceWithin1e6) {
  NIBBLE_NEEDS_SHARED(kTokens);
  const auto& [recipe, name] = GetParam();
  const test::TempDir dir;
  quantize_model({.model = test::shared_path(std::string("models/") + name),
                  .output = dir / "out",
                  .recipe = Recipe::parse(recipe.text, "recipe"),
                  .overwrite = false,
                  .progress = {}});
  const LoadedModel reference = load_model(dir / "out");
  const LoadedModel packed = load_model(dir / "out", {.packed = true, .compute = Compute::kExact});
  for (const std::size_t tokens : {kWindows * 512, std::size_t{31}}) {
    const auto text = datasets::read_token_file(test::shared_path(kTokens), reference.architecture.vocabulary, tokens);
    eval::PerplexityOptions options;
    options.context = 512;
    const auto perplexity = [&](const LoadedModel& model) {
      return eval::perplexity(*model.transformer, text, options).perplexity;
    };
    EXPECT_TRUE(test::near(perplexity(packed), perplexity(reference), {.rel = 1e-6})) << tokens << " tokens";
  }
}

// docs/results/speed.md: at most 6e-5 of the perplexity over 78 windows; a few windows vary more.
TEST(PackedPerplexity, RoundedProductsCostLittleAndAreNotTheExactOnes) {
  NIBBLE_NEEDS_SHARED(kTokens);
  const test::TempDir dir;
  quantize_model({.model = test::shared_path("models/llama-novels"),
                  .output = dir / "out",
                  .recipe = Recipe::parse("{defaults: {format: int4-block}}", "recipe"),
                  .overwrite = false,
                  .progress = {}});
  const auto perplexity = [&](Compute compute) {
    const LoadedModel model = load_model(dir / "out", {.packed = true, .compute = compute});
    eval::PerplexityOptions options;
    options.context = 512;
    const auto text =
        datasets::read_token_file(test::shared_path(kTokens), model.architecture.vocabulary, kWindows * 512);
    return eval::perplexity(*model.transformer, text, options).perplexity;
  };
  const double exact = perplexity(Compute::kExact);
  for (const Compute compute : {Compute::kBf16, Compute::kInt8}) {
    const double rounded = perplexity(compute);
    EXPECT_TRUE(test::near(rounded, exact, {.rel = 1e-3})) << compute_name(compute);
    EXPECT_FALSE(test::near(rounded, exact, {.rel = 1e-6})) << compute_name(compute);
  }
}

INSTANTIATE_TEST_SUITE_P(OfTheSharedModels, PackedModel,
                         testing::Combine(testing::ValuesIn(kRecipes), testing::Values("gpt2-novels", "llama-novels")),
                         [](const auto& cell) {
                           const std::string model = std::get<1>(cell.param);
                           return std::string(std::get<0>(cell.param).name) + "_" + model.substr(0, model.find('-'));
                         });

}  // namespace
}  // namespace nibble::quant

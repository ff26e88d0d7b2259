// Weights multiplied packed against weights decoded from the file: the perplexities of a GPT-2 and a Llama.
#include <gtest/gtest.h>

#include <string>

#include "datasets/token_file.h"
#include "eval/quality/perplexity.h"
#include "quant/job/quantize_model.h"
#include "quant/store/load_model.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/sanitizers.h"

namespace nibble::quant {
namespace {

// A model, a text of its vocabulary and how much of it is read. Under ASan, where a window of the shared models takes
// seconds, the demo models.
struct Material {
  std::filesystem::path model, tokens;
  std::size_t windows, context;
};
Material material(const std::string& family) {
  if (test::kAddressSanitizer)
    return {.model = test::source_path("datasets/demo/" + family + "-demo"),
            .tokens = test::source_path("tests/data/golden/Doyle_Lost_1912.demo.first20000.u16"),
            .windows = 2,
            .context = 256};
  return {.model = test::shared_path("models/" + family + "-novels"),
          .tokens = test::shared_path("golden/windows/test-78x512.u16"),
          .windows = 4,
          .context = 512};
}

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

class PackedModel : public testing::TestWithParam<std::tuple<Recipes, std::string>> {};

// Windows through the decoder and the matrix library, and a text of no more than 32 tokens through the kernels.
TEST_P(PackedModel, HasThePerplexityOfTheReferenceWithin1e6) {
  const auto& [recipe, family] = GetParam();
  const Material on = material(family);
  if (!test::kAddressSanitizer) NIBBLE_NEEDS_SHARED("models/" + family + "-novels");
  const test::TempDir dir;
  quantize_model({.model = on.model,
                  .output = dir / "out",
                  .recipe = Recipe::parse(recipe.text, "recipe"),
                  .overwrite = false,
                  .progress = {}});
  const LoadedModel reference = load_model(dir / "out");
  const LoadedModel packed = load_model(dir / "out", {.packed = true, .compute = Compute::kExact});
  for (const std::size_t tokens : {on.windows * on.context, std::size_t{31}}) {
    const auto text = datasets::read_token_file(on.tokens, reference.architecture.vocabulary, tokens);
    eval::PerplexityOptions options;
    options.context = on.context;
    const auto perplexity = [&](const LoadedModel& model) {
      return eval::perplexity(*model.transformer, text, options).perplexity;
    };
    EXPECT_TRUE(test::near(perplexity(packed), perplexity(reference), {.rel = 1e-6})) << tokens << " tokens";
  }
}

// docs/results/speed.md: at most 6e-5 of the perplexity over 78 windows; a few windows vary more.
TEST(PackedPerplexity, RoundedProductsCostLittleAndAreNotTheExactOnes) {
  const Material on = material("llama");
  if (!test::kAddressSanitizer) NIBBLE_NEEDS_SHARED("models/llama-novels");
  const test::TempDir dir;
  quantize_model({.model = on.model,
                  .output = dir / "out",
                  .recipe = Recipe::parse("{defaults: {format: int4-block}}", "recipe"),
                  .overwrite = false,
                  .progress = {}});
  const auto perplexity = [&](Compute compute) {
    const LoadedModel model = load_model(dir / "out", {.packed = true, .compute = compute});
    eval::PerplexityOptions options;
    options.context = on.context;
    const auto text = datasets::read_token_file(on.tokens, model.architecture.vocabulary, on.windows * on.context);
    return eval::perplexity(*model.transformer, text, options).perplexity;
  };
  const double exact = perplexity(Compute::kExact);
  for (const Compute compute : {Compute::kBf16, Compute::kInt8}) {
    const double rounded = perplexity(compute);
    EXPECT_TRUE(test::near(rounded, exact, {.rel = 1e-3})) << compute_name(compute);
    EXPECT_FALSE(test::near(rounded, exact, {.rel = 1e-6})) << compute_name(compute);
  }
}

INSTANTIATE_TEST_SUITE_P(EachKind, PackedModel,
                         testing::Combine(testing::ValuesIn(kRecipes), testing::Values("gpt2", "llama")),
                         [](const auto& cell) {
                           return std::string(std::get<0>(cell.param).name) + "_" + std::get<1>(cell.param);
                         });

}  // namespace
}  // namespace nibble::quant

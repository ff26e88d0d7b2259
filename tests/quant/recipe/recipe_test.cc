#include "quant/recipe/recipe.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/random.h"
#include "core/text/json.h"
#include "quant/recipe/recipe_keys.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

TensorSettings settings_of(std::string_view yaml, std::string_view name = "h.3.mlp.c_fc.weight") {
  return Recipe::parse(yaml, "r").settings(name);
}

testing::AssertionResult refused(std::string_view yaml, std::string_view first, std::string_view second = "") {
  return test::throws_with<InvalidArgument>([&] { Recipe::parse(yaml, "recipe 'r.yaml'"); }, "recipe 'r.yaml'", first,
                                            second);
}

constexpr std::string_view kExample = R"(
defaults: {format: palette, bits: 4, weighting: fisher, scaling: std, shifting: true}
layers:
  - {match: "lm_head|wte|wpe|embed_tokens", format: float16}
  - {match: "h\\.0\\.", bits: 6}
  - {match: "h\\.", bits: 3}
budget: {bits_per_weight: 3.6, bits: [2, 3, 4, 6], granularity: [tensor, channel]}
)";

TEST(Recipe, OfTheDocumentationMeansWhatItSays) {
  const auto recipe = Recipe::parse(kExample, "r");
  const auto first = recipe.settings("h.0.attn.c_attn.q.weight");
  EXPECT_EQ(first.bits, 6u);
  EXPECT_EQ(first.weighting, Weighting::kFisher);
  EXPECT_EQ(first.scaling, Scaling::kStd);
  EXPECT_TRUE(first.shifting);
  EXPECT_EQ(recipe.settings("h.10.mlp.c_fc.weight").bits, 3u) << "h\\.0\\. must not match h.10.";
  EXPECT_EQ(recipe.settings("model.layers.0.mlp.up_proj.weight").bits, 4u);
  const auto embedding = recipe.settings("wte.weight");
  EXPECT_EQ(embedding.format, Format::kFloat16);
  EXPECT_EQ(embedding.scaling, Scaling::kNone) << "a default that means nothing for float16 is dropped";
  EXPECT_EQ(embedding.weighting, Weighting::kNone);
  EXPECT_FALSE(embedding.shifting);
  EXPECT_EQ(recipe.matching_rule("h.0.x"), 1u);
  EXPECT_EQ(recipe.matching_rule("model.norm.weight"), std::nullopt);
  ASSERT_TRUE(recipe.budget());
  EXPECT_EQ(recipe.budget()->bits, (std::vector<unsigned>{2, 3, 4, 6}));
  EXPECT_EQ(recipe.budget()->granularity, (std::vector{Granularity::kTensor, Granularity::kChannel}));
}

TEST(Recipe, FirstMatchWins) {
  constexpr auto yaml = "layers: [{match: mlp, bits: 2}, {match: c_fc, bits: 8}]";
  EXPECT_EQ(settings_of(yaml).bits, 2u);
  EXPECT_EQ(settings_of(yaml, "h.0.attn.c_fc.weight").bits, 8u);
}

TEST(Recipe, RulesSearchInTheNameUnlessAnchored) {
  EXPECT_EQ(settings_of("layers: [{match: 'c_fc', bits: 2}]").bits, 2u);
  EXPECT_EQ(settings_of("layers: [{match: '^c_fc', bits: 2}]").bits, 4u);
  EXPECT_EQ(settings_of("layers: [{match: '^h\\.3\\..*weight$', bits: 2}]").bits, 2u);
}

TEST(Recipe, WithoutArgumentsNeedsNoCalibration) {
  const auto settings = Recipe().settings("x.weight");
  EXPECT_EQ(settings.format, Format::kPalette);
  EXPECT_EQ(settings.bits, 4u);
  EXPECT_EQ(settings.weighting, Weighting::kNone);
  EXPECT_EQ(settings.scaling, Scaling::kNone);
  EXPECT_EQ(settings.solver, Solver::kNearest);
}

TEST(Recipe, TakesAnEmptyOrMissingDefaultsSection) {
  EXPECT_EQ(settings_of("layers: []").bits, 4u);
  EXPECT_EQ(settings_of("defaults: {}").bits, 4u);
}

TEST(Recipe, IsJsonToo) { EXPECT_EQ(settings_of(R"({"defaults": {"bits": 2, "format": "uniform"}})").bits, 2u); }

TEST(RecipeKeys, AreThoseThatTheTableOfFormatsNames) {
  for (const StorageFormat* format : storage_formats())
    for (const std::string_view key : format->keys) EXPECT_NO_THROW(find_recipe_key(key)) << format->name;
  for (const RecipeKey& key : recipe_keys()) {
    const bool of_every_format = key.name == "format";
    bool taken = false;
    for (const StorageFormat* format : storage_formats()) taken = taken || format->takes(key.name);
    EXPECT_NE(taken, of_every_format) << key.name;
  }
}

TEST(Recipe, RefusesKeysThatWouldChangeNothing) {
  EXPECT_TRUE(refused("defaults: {seed: 3}", "seed: 3 means nothing here", "cluster_dim"));
  EXPECT_EQ(settings_of("defaults: {seed: 3, cluster_dim: 2}").seed, 3u);
  EXPECT_EQ(settings_of("defaults: {seed: 3, bits: 2, window_bits: 6}").seed, 3u);
  EXPECT_TRUE(refused("defaults: {solver: gptq, static_groups: false}", "static_groups: false means nothing here",
                      "int4-block, uniform and block-palette"));
  const auto uniform = [](std::string_view more) {
    return fmt::format("defaults: {{format: uniform, solver: gptq, static_groups: false, act_order: false{}}}", more);
  };
  EXPECT_FALSE(settings_of(uniform(", group_size: 32")).static_groups);
  for (const auto whole_rows : {"", ", group_size: 0"})
    EXPECT_TRUE(refused(uniform(whole_rows), "static_groups: false means nothing here", "group_size")) << whole_rows;
}

// A row that is one group has the grid that it would have beforehand.
TEST(Recipe, GroupsThatAreReachedInOrderAreDroppedWhereARuleHasWholeRows) {
  const std::string defaults =
      "{defaults: {format: uniform, group_size: 32, solver: gptq, static_groups: false, act_order: false}, layers: [";
  EXPECT_TRUE(settings_of(defaults + "{match: c_fc, group_size: 0}]}").static_groups);
  EXPECT_FALSE(settings_of(defaults + "{match: c_fc, bits: 3}]}").static_groups);
  EXPECT_TRUE(refused(defaults + "{match: c_fc, group_size: 0, static_groups: false}]}", "rule 1",
                      "static_groups: false means nothing here"));
}

// Ids of cells are hashes of it.
TEST(Recipe, CanonicalTextOfWholeRowsStaysWhatItWas) {
  const auto text = [](std::string_view more) {
    return Recipe::parse(fmt::format("defaults: {{format: uniform, solver: gptq{}}}", more), "r").canonical_text();
  };
  EXPECT_NE(text("").find("  static_groups: true\n"), std::string::npos) << text("");
  EXPECT_EQ(text(", static_groups: true"), text(""));
}

TEST(Recipe, RulesThatTakeWindowsBackSaySo) {
  const auto text = [](std::string_view rule) {
    return Recipe::parse(fmt::format("{{defaults: {{bits: 2, window_bits: 6}}, layers: [{{match: a, {}}}]}}", rule),
                         "r")
        .canonical_text();
  };
  for (const auto rule : {"bits: 6, window_bits: 0", "window_bits: 0"}) {
    EXPECT_NE(text(rule).find("    window_bits: 0\n"), std::string::npos) << text(rule);
    EXPECT_EQ(Recipe::parse(text(rule), "again").canonical_text(), text(rule));
    EXPECT_EQ(Recipe::parse(text(rule), "again").settings("a").window_bits, 0u);
  }
  EXPECT_NE(text("bits: 3, window_bits: 0"), text("bits: 3"));
  EXPECT_EQ(Recipe::parse("defaults: {bits: 2}", "r").canonical_text().find("window_bits"), std::string::npos);
}

TEST(Recipe, UnknownKeysSuggestTheNearest) {
  EXPECT_TRUE(refused("defaults:\n  format: palette\n  bit: 3\n", "line 3: unknown key 'bit'", "did you mean 'bits'"));
  EXPECT_TRUE(refused("layers: [{match: a, wieghting: none}]", "rule 1", "did you mean 'weighting'"));
  EXPECT_TRUE(refused("default: {bits: 3}", "unknown section 'default'", "did you mean 'defaults'"));
  EXPECT_TRUE(refused("budget: {bit_per_weight: 3}", "did you mean 'bits_per_weight'"));
  EXPECT_TRUE(refused("defaults: {format: palete}",
                      "format: expected palette, uniform, int4-block, block-palette, float16, got 'palete'",
                      "did you mean 'palette'"));
}

TEST(Recipe, RefusesValuesOutOfRange) {
  EXPECT_TRUE(refused("defaults: {bits: 0}", "bits: expected a whole number from 1 to 8, got '0'"));
  EXPECT_TRUE(refused("defaults: {bits: 4.0}", "bits"));
  EXPECT_TRUE(refused("defaults: {bits: [4]}", "bits: expected a single value"));
  EXPECT_TRUE(refused("defaults: {format: int4-block, bits: 5}", "bits", "int4-block always stores 4 bits"));
  EXPECT_TRUE(
      refused("defaults: {format: uniform, bits: 1}", "expected 2, 3, 4, 5, 6, 7, 8 with format: uniform, got 1"));
  EXPECT_TRUE(refused("defaults: {format: uniform, group_size: 33}", "group_size", "got 33"));
  EXPECT_TRUE(refused("defaults: {format: int4-block, group_size: 0}", "group_size", "got 0"));
  EXPECT_TRUE(refused("defaults: {granularity: channel-group, group_size: 0}", "group_size", "granularity: tensor"));
  EXPECT_TRUE(refused("defaults: {cluster_dim: 3}", "cluster_dim: expected 1, 2 or 4"));
  EXPECT_TRUE(refused("defaults: {window_bits: 3}", "window_bits: expected 0", "or 4 to 10, got '3'"));
  EXPECT_TRUE(refused("defaults: {window_bits: 11}", "got '11'"));
  EXPECT_TRUE(refused("{defaults: {bits: 2, window_bits: 6}, layers: [{match: a, bits: 6}]}", "rule 1", "window_bits"));
  EXPECT_TRUE(refused("defaults: {shifting: yes}", "shifting: expected true or false, got 'yes'"));
  EXPECT_TRUE(refused("defaults: {solver: gptq, damping: nan}", "damping"));
  EXPECT_TRUE(refused("defaults: {solver: gptq, damping: -0.1}", "damping: expected a number from 0 to 1"));
  EXPECT_TRUE(refused("defaults: {outliers_large: 0.9}", "outliers_large"));
  EXPECT_TRUE(refused("defaults: {seed: -1}", "seed"));
  EXPECT_TRUE(refused("defaults: {seed: 99999999999999999999}", "seed"));
  EXPECT_TRUE(refused("budget: {bits: [4]}", "bits_per_weight is missing"));
  EXPECT_TRUE(refused("budget: {bits_per_weight: 3, bits: 4}", "expected a list"));
}

TEST(Recipe, RefusesKeysThatMeanNothingBesideTheOthersAndSaysWhy) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"{format: float16, bits: 6}", "float16 16"},
      {"{format: int4-block, bits: 3}", "always stores 4 bits"},
      {"{format: uniform, granularity: channel}", "it goes with format: palette"},
      {"{group_size: 8}", "group_size: 8 means nothing here"},
      {"{scaling: std, cluster_dim: 2}", "format: palette without scaling"},
      {"{format: uniform, palette_dtype: int8}", "palette_dtype"},
      {"{format: uniform, weighting: fisher}", "or blocks with search"},
      {"{weighting_scale: plain}", "weighting_scale: plain means nothing here; it goes with a palette with scaling"},
      {"{sign: flip}", "sign"},
      {"{granularity: channel, scaling: std, sign: search}",
       "sign: search means nothing here; it goes with a palette with scaling other than none that rows share"},
      {"{granularity: channel, scaling: std, weighting: fisher, weighting_scale: plain}",
       "weighting_scale: plain means nothing here; it goes with a palette with scaling other than none that rows "
       "share"},
      {"{granularity: channel-group, group_size: 1, scaling: absmax, sign: flip}", "that rows share"},
      {"{joint_iterations: 3}", "joint_iterations"},
      {"{hessian: centred}", "solver: gptq or coordinate-descent"},
      {"{format: int4-block, solver: gptq, static_groups: false}", "act_order: false"},
      {"{output_hessian: true}", "output_hessian: true means nothing here; it goes with"},
      {"{output_hessian: true, weighting: fisher}", "it goes with solver: coordinate-descent"},
      {"{output_hessian: 1, solver: coordinate-descent}", "output_hessian: expected true or false, got '1'"},
      {"{format: float16, output_hessian: true}", "output_hessian"},
      {"{solver: gptq, output_hessian: true}", "needs solver: coordinate-descent, or output_hessian: false"},
      {"{format: uniform, solver: gptq, output_hessian: true}", "needs solver: coordinate-descent"},
      {"{act_order: false}", "act_order"},
      {"{damping: 0.1}", "damping"},
      {"{format: uniform, solver: gptq, codebook_iterations: 1}", "codebook_iterations"},
      {"{zero_point: true}", "int4-block and uniform"},
      {"{int4_scale: absmax-7}", "format: int4-block"},
      {"{format: int4-block, uniform_scale: extreme}", "format: uniform without zero_point"},
      {"{format: uniform, zero_point: true, uniform_scale: extreme}", "format: uniform without zero_point"},
      {"{format: uniform, group_size: 16, super_block: 256, uniform_scale: extreme}",
       "format: uniform without zero_point"},
      {"{format: uniform, uniform_scale: minmax}", "expected absmax, extreme"},
      {"{search: error}", "search"},
      {"{format: float16, shifting: true}", "every format but float16"},
      {"{format: int4-block, int4_scale: minmax}", "minmax needs zero_point: true"},
      {"{format: int4-block, zero_point: true}", "only int4_scale: minmax has one"},
      {"{format: uniform, search: weighted}", "needs a weighting"},
      {"{format: uniform, outliers_large: 0.01}", "outliers_large"},
      {"{outliers_large: 0.01, outliers_saving: 0.01}", "one rule chooses"},
      {"{cluster_dim: 2, solver: gptq}", "cluster_dim"},
      {"{format: uniform, window_bits: 6}", "it goes with format: palette"},
      {"{bits: 6, window_bits: 6}", "go on by 1 to 4 bits"},
      {"{bits: 4, window_bits: 4}", "go on by 1 to 3 bits"},
      {"{bits: 2, window_bits: 6, granularity: channel}", "needs granularity: tensor"},
      {"{bits: 2, window_bits: 6, cluster_dim: 2}", "needs cluster_dim: 1"},
      {"{bits: 2, window_bits: 6, scaling: std, sign: search}", "needs sign: plain"},
      {"{bits: 2, window_bits: 6, scaling: std, weighting_scale: plain}", "weighting_scale: objective"},
      {"{palette: nf4}", "format: block-palette"},
      {"{format: int4-block, block_scale: e8m0}", "format: block-palette"},
      {"{format: block-palette, palette: fp4, bits: 3}", "the fixed ones have 4"},
      {"{format: block-palette, bits: 6}", "bits: expected 2, 3, 4"},
      {"{format: block-palette, group_size: 48}", "expected 16, 32, 64, 128, 256 inputs per block"},
      {"{format: block-palette, palette: nf4, joint_iterations: 2}", "or a learned block palette"},
      {"{format: block-palette, joint_iterations: 2}", "needs search: error or weighted"},
      {"{format: block-palette, search: hessian, joint_iterations: 2}", "needs search: error or weighted"},
      {"{format: block-palette, palette: nf4, weighting: fisher}", "or blocks with search"},
      {"{format: block-palette, search: error, weighting: fisher}", "what search: weighted minimises"},
      {"{format: block-palette, search: weighted}", "needs a weighting other than none"},
      {"{weighting: hessian}", "needs solver: gptq or coordinate-descent"},
      {"{format: uniform, search: weighted, weighting: hessian}", "needs solver: gptq or coordinate-descent"},
      {"{format: block-palette, solver: gptq, static_groups: false}", "act_order: false"},
      {"{damping_by: mean}", "solver: gptq or coordinate-descent"},
      {"{solver: gptq, drift_correction: 1}", "sequential: true and a solver other than nearest"},
      {"{sequential: true, drift_correction: 1}", "sequential: true and a solver other than nearest"},
      {"{solver: gptq, sequential: true, drift_correction: 1.5}", "drift_correction"},
      {"{solver: gptq, sequential: true, hessian: guided}", "say drift_correction, shifting: true"},
      {"{solver: gptq, sequential: true, drift_correction: 1, guided_inputs: drifted}",
       "goes with drift_correction and a guided Hessian"},
      {"{solver: gptq, sequential: true, hessian: guided-centred, shifting: true, guided_inputs: drifted}",
       "goes with drift_correction and a guided Hessian"},
      {"{solver: gptq, sequential: true, hessian: guided, drift_correction: 1, guided_inputs: quantized}",
       "expected float, drifted"},
      {"{solver: gptq, damping_by: trace}", "expected own, mean"},
      {"{format: uniform, bits: 3, group_size: 16, super_block: 128}", "expected 0 (scales of any value) or 256"},
      {"{format: uniform, bits: 3, group_size: 256, super_block: 256}", "group_size: 16, 32, 64 or 128, got 256"},
      {"{format: uniform, bits: 3, super_block: 256}", "group_size: 16, 32, 64 or 128, got 0"},
      {"{format: uniform, bits: 3, group_size: 16, zero_point: true, super_block: 256}", "needs zero_point: false"},
      {"{format: block-palette, palette: fp4, block_scale: e8m0, super_block: 256}", "needs block_scale: float16"},
      {"{format: uniform, group_size: 16, super_block: 256, solver: gptq, act_order: false, static_groups: false}",
       "needs static_groups: true"},
      {"{format: int4-block, super_block: 256}", "it goes with uniform and block-palette"},
      {"{format: block-palette, granularity: channel}", "it goes with format: palette"},
      {"{format: block-palette, codebook_iterations: 2, solver: gptq}", "codebook_iterations"},
      {"{bits: 2, window_bits: 6, scaling: least-squares}", "say scaling: std with joint_iterations"},
      {"{bits: 2, window_bits: 6, outliers_large: 0.01}", "outliers of 0"},
      {"{solver: gptq, hessian: centred}", "say shifting: true"},
      {"{solver: coordinate-descent, hessian: guided-centred}", "or hessian: guided"},
  };
  for (const auto& [section, words] : cases)
    EXPECT_TRUE(refused("defaults: " + std::string(section), "defaults", words)) << section;
}

TEST(Recipe, RefusesOutliersThatAreEveryWeight) {
  EXPECT_TRUE(refused("defaults: {outliers_sensitive: 0.5, outliers_large: 0.5}", "defaults",
                      "a sum of less than 1, got 0.5 + 0.5"));
  EXPECT_TRUE(refused("{defaults: {outliers_large: 0.5}, layers: [{match: a, outliers_sensitive: 0.5}]}",
                      "rule 1 of layers (match: \"a\")", "a sum of less than 1, got 0.5 + 0.5"));
  EXPECT_NO_THROW(Recipe::parse("defaults: {outliers_sensitive: 0.5, outliers_large: 0.49}", "r"));
}

TEST(Recipe, TakesAnExplicitDefaultAnywhere) {
  // A sweep that writes every key must not trip over those that ask for nothing.
  EXPECT_NO_THROW(Recipe::parse("defaults: {format: int4-block, weighting: none, scaling: none, bits: 4}", "r"));
}

TEST(Recipe, TakesWhatTheTableAllows) {
  for (const auto section :
       {"{format: uniform, bits: 7, group_size: 64, zero_point: true}",
        "{format: uniform, search: weighted, weighting: fisher}",
        "{format: uniform, search: weighted, weighting: hessian, solver: gptq}",
        "{bits: 2, window_bits: 6, weighting: hessian, solver: coordinate-descent, output_hessian: true}",
        "{format: int4-block, int4_scale: minmax, zero_point: true}",
        "{granularity: channel-group, group_size: 16}",
        "{cluster_dim: 4}",
        "{scaling: std, sign: search, joint_iterations: 4, weighting_scale: plain}",
        "{granularity: channel-group, scaling: std, sign: search, joint_iterations: 4, weighting_scale: plain}",
        "{granularity: channel, scaling: std, sign: plain, weighting_scale: objective}",
        "{solver: coordinate-descent, hessian: guided, codebook_iterations: 2, act_order: false, damping: 0.05}",
        "{solver: coordinate-descent, output_hessian: true}",
        "{solver: coordinate-descent, output_hessian: true, sequential: true}",
        "{solver: gptq, sequential: true, drift_correction: 0.5}",
        "{solver: gptq, sequential: true, shifting: true, drift_correction: 1}",
        "{solver: gptq, sequential: true, hessian: guided, drift_correction: 1}",
        "{solver: gptq, sequential: true, hessian: guided, drift_correction: 1, guided_inputs: drifted}",
        "{solver: gptq, guided_inputs: float}",
        "{solver: gptq, sequential: true, hessian: guided-centred, shifting: true}",
        "{bits: 2, window_bits: 6, solver: coordinate-descent, hessian: guided, output_hessian: true}",
        "{format: uniform, solver: coordinate-descent, output_hessian: true}",
        "{format: int4-block, solver: coordinate-descent, output_hessian: true}",
        "{format: block-palette, solver: coordinate-descent, output_hessian: true}",
        "{solver: gptq, output_hessian: false}",
        "{bits: 1}",
        "{bits: 8, palette_dtype: float32}",
        "{format: float16}",
        "{input_scaling: awq}",
        "{format: block-palette}",
        "{format: block-palette, bits: 2, group_size: 16, weighting: fisher}",
        "{format: block-palette, palette: iq4_nl, search: hessian, solver: coordinate-descent}",
        ("{format: block-palette, bits: 3, block_scale: e4m3, search: weighted, weighting: magnitude, "
         "joint_iterations: 3}"),
        ("{format: block-palette, palette: fp4, block_scale: e8m0, solver: gptq, static_groups: false, act_order: "
         "false, shifting: true, input_scaling: awq}"),
        "{bits: 2, window_bits: 6}",
        "{bits: 3, window_bits: 10, scaling: absmax, joint_iterations: 4, weighting: fisher}",
        "{bits: 4, window_bits: 8, palette_dtype: int8, solver: gptq, codebook_iterations: 2, input_scaling: awq}",
        "{outliers_sensitive: 0.0005, outliers_large: 0.004}",
        "{outliers_large: 0.01, solver: gptq, scaling: std}",
        "{outliers_saving: 0.0045, solver: coordinate-descent, codebook_iterations: 2}"})
    EXPECT_NO_THROW(Recipe::parse("defaults: " + std::string(section), "r")) << section;
}

TEST(Recipe, ARuleIsCheckedWithTheDefaultsUnderIt) {
  EXPECT_NO_THROW(Recipe::parse("{defaults: {scaling: std}, layers: [{match: a, sign: flip}]}", "r"));
  EXPECT_TRUE(refused("{defaults: {scaling: std}, layers: [{match: a, format: uniform, sign: flip}]}",
                      "rule 1 of layers (match: \"a\")", "sign"));
  EXPECT_TRUE(refused("{defaults: {scaling: std}, layers: [{match: a, cluster_dim: 2}]}", "without scaling"));
}

TEST(Recipe, SignsAreNotInheritedByPalettesOfSingleRowsWhoseTextStaysWhatItWas) {
  constexpr auto rule =
      "{defaults: {scaling: std, sign: search, weighting_scale: plain}, layers: [{match: c_fc, granularity: channel}]}";
  EXPECT_EQ(settings_of(rule).sign, Sign::kPlain);
  EXPECT_EQ(settings_of(rule).weighting_scale, WeightingScale::kObjective);
  EXPECT_EQ(settings_of(rule, "q").sign, Sign::kSearch);
  const std::string text = Recipe::parse("defaults: {granularity: channel, scaling: std}", "r").canonical_text();
  EXPECT_NE(text.find("  weighting_scale: objective\n  sign: plain\n"), std::string::npos) << text;
}

TEST(Recipe, AGroupSizeIsNotInheritedByAnotherKindOfGroup) {
  constexpr auto yaml = "{defaults: {format: int4-block, group_size: 64}, layers: [{match: c_fc, format: uniform}]}";
  EXPECT_EQ(settings_of(yaml, "x").effective_group_size(), 64u);
  EXPECT_EQ(settings_of(yaml).effective_group_size(), 0u);
}

TEST(Recipe, AGroupSizeStaysWhereARuleRepeatsTheKindOfGroup) {
  constexpr auto blocks =
      "{defaults: {format: int4-block, group_size: 64}, layers: [{match: c_fc, format: int4-block, search: error}]}";
  EXPECT_EQ(settings_of(blocks).effective_group_size(), 64u);
  constexpr auto rows =
      "{defaults: {granularity: channel-group, group_size: 16}, "
      "layers: [{match: c_fc, format: palette, granularity: channel-group}, {match: q, granularity: tensor}]}";
  EXPECT_EQ(settings_of(rows).effective_group_size(), 16u);
  EXPECT_EQ(settings_of(rows, "q").group_size, std::nullopt);
}

TEST(Recipe, OutputHessiansArePrintedAndReadAgain) {
  constexpr auto with = "defaults: {solver: coordinate-descent, output_hessian: true}";
  const std::string text = Recipe::parse(with, "r").canonical_text();
  EXPECT_NE(text.find("  output_hessian: true\n"), std::string::npos) << text;
  EXPECT_TRUE(Recipe::parse(text, "again").settings("a").output_hessian);
  EXPECT_EQ(Recipe::parse(text, "again").canonical_text(), text);
  // Recipes without it stay what they were: names of cells and fingerprints follow from the text.
  EXPECT_EQ(Recipe::parse("defaults: {solver: coordinate-descent}", "r").canonical_text().find("output"),
            std::string::npos);
  EXPECT_FALSE(settings_of("defaults: {solver: coordinate-descent}").output_hessian);
}

TEST(Recipe, ARuleMayTakeTheOutputHessianBack) {
  constexpr auto yaml =
      "{defaults: {solver: coordinate-descent, output_hessian: true}, layers: [{match: a, output_hessian: false}, "
      "{match: b, solver: nearest}, {match: c, format: float16}, {match: d, solver: gptq, output_hessian: false}]}";
  const Recipe recipe = Recipe::parse(yaml, "r");
  EXPECT_TRUE(recipe.settings("x").output_hessian);
  for (const char* name : {"a", "b", "c", "d"}) EXPECT_FALSE(recipe.settings(name).output_hessian) << name;
  const Recipe again = Recipe::parse(recipe.canonical_text(), "again");
  for (const char* name : {"a", "b", "c", "d"}) EXPECT_FALSE(again.settings(name).output_hessian) << name;
  EXPECT_TRUE(
      refused("{defaults: {solver: coordinate-descent, output_hessian: true}, "
              "layers: [{match: d, solver: gptq}]}",
              "rule 1", "output_hessian: false"));
}

TEST(Recipe, RefusesRulesWithoutSense) {
  EXPECT_TRUE(refused("layers: [{bits: 3}]", "rule 1", "expected a pattern"));
  EXPECT_TRUE(refused("layers: [3]", "expected a rule"));
  EXPECT_TRUE(refused("layers: {match: a}", "expected a list of rules"));
  EXPECT_TRUE(refused("layers: [{match: '(', bits: 3}]", "cannot compile the pattern '('", "at byte 1"));
  EXPECT_TRUE(refused("layers: [{match: '', bits: 3}]", "pattern of 1 to 1024 bytes"));
  EXPECT_TRUE(refused("layers: [{match: '" + std::string(2000, 'a') + "', bits: 3}]", "got 2000"));
  EXPECT_TRUE(refused("[1, 2]", "expected sections"));
  EXPECT_TRUE(refused("", "expected sections"));
}

TEST(Recipe, APatternThatRunsAwayIsStopped) {
  const auto recipe = Recipe::parse("layers: [{match: '(a+)+$', bits: 3}]", "r");
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { recipe.settings(std::string(60, 'a') + "!"); }, "(a+)+$"));
}

constexpr std::array kProbes{"h.0.mlp.c_fc.weight", "h.1.attn.c_attn.q.weight", "wte.weight", "a\"\\b"};

// What is read from its canonical text, and from its JSON, is the same recipe.
void expect_to_come_back(const Recipe& recipe) {
  const std::string canonical = recipe.canonical_text();
  SCOPED_TRACE(canonical);
  for (const std::string& text : {canonical, recipe.canonical_json().dump()}) {
    std::optional<Recipe> again;
    ASSERT_NO_THROW(again = Recipe::parse(text, "canonical"));
    EXPECT_EQ(again->canonical_text(), canonical);
    EXPECT_EQ(again->canonical_json(), recipe.canonical_json());
    EXPECT_EQ(again->rules(), recipe.rules());
    for (const char* name : kProbes) {
      const TensorSettings settings = recipe.settings(name), same = again->settings(name);
      EXPECT_EQ(again->matching_rule(name), recipe.matching_rule(name)) << name;
      for (const RecipeKey& key : recipe_keys()) {
        EXPECT_EQ(key.print(same), key.print(settings)) << name << " " << key.name;
        if (!key.applies(settings)) continue;  // else nobody asks: budgets leave alone what a rule names
        EXPECT_EQ(again->rule_names(name, key.name), recipe.rule_names(name, key.name)) << name << " " << key.name;
      }
    }
  }
}

TEST(Recipe, CanonicalTextIsAFixedPointAndKeepsTheMeaning) {
  std::vector<std::string> texts{std::string(kExample),
                                 "{defaults: {format: int4-block}, layers: [{match: 'a\"\\b', format: uniform}]}"};
  for (const auto name : Recipe::preset_names()) texts.emplace_back(Recipe::preset_text(name));
  for (const auto& text : texts) expect_to_come_back(Recipe::parse(text, "r"));
}

TEST(Recipe, ComesBackWhereARuleSaysOnlyDefaultsThatMeanNothingThere) {
  const Recipe recipe = Recipe::parse(
      "{defaults: {format: int4-block, group_size: 64}, layers: [{match: c_fc, bits: 4}, {match: '.', group_size: "
      "16}]}",
      "r");
  EXPECT_NE(recipe.canonical_text().find("  - match: \"c_fc\"\n  - match: \".\"\n    group_size: 16\n"),
            std::string::npos)
      << recipe.canonical_text();
  expect_to_come_back(recipe);
  expect_to_come_back(Recipe::parse("layers: [{match: c_fc, sign: plain, seed: 0}, {match: c_attn, bits: 2}]", "r"));
}

TEST(Recipe, ARuleOfAPatternAloneGivesTheDefaults) {
  const Recipe recipe = Recipe::parse("{defaults: {bits: 3}, layers: [{match: c_fc}, {match: h, bits: 2}]}", "r");
  EXPECT_EQ(recipe.settings("h.0.mlp.c_fc.weight").bits, 3u);
  EXPECT_EQ(recipe.settings("h.0.mlp.c_proj.weight").bits, 2u);
  EXPECT_EQ(recipe.matching_rule("h.0.mlp.c_fc.weight"), 0u);
  expect_to_come_back(recipe);
}

// Keys with values of all kinds; many of them mean nothing together.
std::string random_section(Random& random, std::string text) {
  const std::vector<std::pair<std::string_view, std::vector<std::string_view>>> keys{
      {"format", {"palette", "uniform", "int4-block", "block-palette", "float16"}},
      {"palette", {"learned", "nf4", "fp4"}},
      {"block_scale", {"float16", "e8m0", "e4m3"}},
      {"bits", {"4", "2", "3"}},
      {"granularity", {"tensor", "channel-group", "channel"}},
      {"group_size", {"16", "32", "64"}},
      {"palette_dtype", {"float16", "int8"}},
      {"scaling", {"none", "std"}},
      {"cluster_dim", {"1", "2"}},
      {"window_bits", {"0", "6"}},
      {"search", {"none", "error"}},
      {"super_block", {"0", "256"}},
      {"weighting", {"none", "fisher"}},
      {"sign", {"plain", "flip"}},
      {"joint_iterations", {"0", "2"}},
      {"shifting", {"false", "true"}},
      {"solver", {"nearest", "gptq", "coordinate-descent"}},
      {"hessian", {"plain", "guided"}},
      {"output_hessian", {"false", "true"}},
      {"act_order", {"true", "false"}},
      {"static_groups", {"true", "false"}},
      {"damping", {"0.01", "1e-7"}},
      {"damping_by", {"own", "mean"}},
      {"codebook_iterations", {"0", "3"}},
      {"sequential", {"false", "true"}},
      {"drift_correction", {"0.0", "0.5"}},
      {"guided_inputs", {"float", "drifted"}},
      {"zero_point", {"false", "true"}},
      {"int4_scale", {"extreme-8", "minmax", "absmax-7.5"}},
      {"uniform_scale", {"absmax", "extreme"}},
      {"input_scaling", {"none", "awq"}},
      {"outliers_large", {"0.0", "0.005"}},
      {"seed", {"0", "18446744073709551615"}}};
  const std::size_t wanted = random.below(4);
  std::set<std::size_t> chosen;
  while (chosen.size() < wanted) chosen.insert(random.below(keys.size()));
  for (const std::size_t k : chosen) {
    const auto& [name, values] = keys[k];
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", name, values[random.below(values.size())]);
  }
  return "{" + text + "}";
}

TEST(Recipe, WhateverIsAcceptedComesBack) {
  // As YAML has them; of all kinds of characters that a text may have to escape.
  const std::vector<std::string> patterns{
      "c_fc", "'^h\\.0'", "'a\"\\b'", "'é|\u2028|#: -'", "\"x\\t\\n\\x7f\\x85\\0|w\"", "0"};
  constexpr std::uint64_t kSeed = 5;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  std::size_t accepted = 0;
  for (int i = 0; i < 6000 && !testing::Test::HasFailure(); ++i) {
    std::string text = "{defaults: " + random_section(random, "") + ", layers: [";
    for (std::size_t rule = random.below(3); rule-- > 0;)
      text += random_section(random, "match: " + patterns[random.below(patterns.size())]) + ", ";
    text += "]}";
    std::optional<Recipe> recipe;
    try {
      recipe = Recipe::parse(text, "r");
    } catch (const InvalidArgument&) {
      continue;
    }
    ++accepted;
    SCOPED_TRACE(text);
    expect_to_come_back(*recipe);
  }
  EXPECT_GT(accepted, 500u);
}

TEST(Recipe, CanonicalTextFillsInEveryDefaultThatMeansSomething) {
  EXPECT_EQ(Recipe::parse("{defaults: {format: int4-block}, layers: [{match: 'h\\.0', format: uniform, bits: 3}]}", "r")
                .canonical_text(),
            "defaults:\n"
            "  format: int4-block\n"
            "  group_size: 32\n"
            "  search: none\n"
            "  shifting: false\n"
            "  solver: nearest\n"
            "  sequential: false\n"
            "  int4_scale: extreme-8\n"
            "  zero_point: false\n"
            "  input_scaling: none\n"
            "layers:\n"
            "  - match: \"h\\\\.0\"\n"
            "    format: uniform\n"
            "    bits: 3\n");
}

TEST(Recipe, TheOrderOfKeysDoesNotChangeTheCanonicalText) {
  EXPECT_EQ(Recipe::parse("defaults: {bits: 3, scaling: std}", "r").canonical_text(),
            Recipe::parse("defaults: {scaling: std, bits: 3, sign: plain}", "r").canonical_text());
}

TEST(Presets, SolvedOnesAreTheirBasesButForWhatSolves) {
  for (const std::string base :
       {"iq4_nl", "iq4_xs", "gguf-q3_k", "gguf-q4_0", "gguf-q5_0", "mlx-4bit", "compressed-tensors-4bit"}) {
    Recipe expected = Recipe::preset(base);
    for (const char* setting : {"search=hessian", "solver=coordinate-descent", "hessian=guided", "output_hessian=true",
                                "sequential=true", "drift_correction=1"})
      expected.apply_set(setting);
    EXPECT_EQ(Recipe::preset(base + "-solved").canonical_text(), expected.canonical_text()) << base;
  }
}

TEST(Presets, AreValidAndPrintable) {
  for (const auto name : Recipe::preset_names()) EXPECT_NO_THROW(Recipe::preset(name).validate()) << name;
  EXPECT_EQ(Recipe::preset("whole-tensor").settings("x").sign, Sign::kFlip);
  EXPECT_EQ(Recipe::preset("squeezellm").settings("x").granularity, Granularity::kChannel);
  EXPECT_EQ(Recipe::preset("gptq").settings("x").solver, Solver::kGptq);
  EXPECT_TRUE(test::throws_with<InvalidArgument>([] { Recipe::preset("squeezelm"); }, "unknown preset",
                                                 "did you mean 'squeezellm'"));
}

TEST(Setting, OverridesDefaultsButNotRules) {
  auto recipe = Recipe::parse("{defaults: {bits: 4}, layers: [{match: c_fc, bits: 6}]}", "r");
  recipe.apply_set("bits=3");
  recipe.validate();
  EXPECT_EQ(recipe.settings("x").bits, 3u);
  EXPECT_EQ(recipe.settings("h.0.mlp.c_fc").bits, 6u);
}

TEST(Setting, ChecksTheKeyAtOnceAndTheCombinationAtTheEnd) {
  auto recipe = Recipe::preset("palette");
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { recipe.apply_set("bit=3"); }, "did you mean 'bits'"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { recipe.apply_set("bits"); }, "expected key=value, got 'bits'"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { recipe.apply_set("bits=x"); }, "bits", "got 'x'"));
  recipe.apply_set("sign=flip");
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { recipe.validate(); }, "sign", "scaling"));
  recipe.apply_set("scaling=std");
  EXPECT_NO_THROW(recipe.validate());
}

TEST(Setting, ChangesTheBudgetOrMakesOne) {
  auto recipe = Recipe::preset("scalar-mixed");
  recipe.apply_set("budget.bits_per_weight=3.08");
  recipe.apply_set("budget.bits=2,3,4");
  recipe.apply_set("budget.granularity=channel");
  EXPECT_EQ(recipe.budget()->bits_per_weight, 3.08);  // the same decimal
  EXPECT_EQ(recipe.budget()->bits, (std::vector<unsigned>{2, 3, 4}));
  EXPECT_EQ(recipe.budget()->granularity, std::vector{Granularity::kChannel});
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { recipe.apply_set("budget.bits=2,2"); }, "'2' is listed twice"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { recipe.apply_set("budget.bits="); }, "from 1 to 8, got ''"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { recipe.apply_set("budget.bit=2"); }, "did you mean 'bits'"));
  auto plain = Recipe::preset("scalar");
  plain.apply_set("budget.bits=3,4");
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { plain.validate(); }, "bits_per_weight is missing"));
  plain.apply_set("budget.bits_per_weight=3.5");
  EXPECT_NO_THROW(plain.validate());
}

TEST(Setting, ChangesTheTuningOrMakesOne) {
  auto recipe = Recipe::preset("scalar");
  recipe.apply_set("tuning.epochs=2");
  recipe.apply_set("tuning.train=codes,palettes");
  ASSERT_TRUE(recipe.tuning());
  EXPECT_EQ(recipe.tuning()->epochs, 2u);
  EXPECT_TRUE(recipe.tuning()->codes && recipe.tuning()->palettes);
  EXPECT_FALSE(recipe.tuning()->scales || recipe.tuning()->biases);
  EXPECT_FALSE(recipe.canonical_json()["tuning"].contains("windows"));  // as before there was such a key
  recipe.apply_set("tuning.windows=24");
  EXPECT_EQ(recipe.tuning()->windows, 24u);
  EXPECT_EQ(recipe.canonical_json()["tuning"]["windows"], 24);
  const auto refused = [&](const char* setting, const char* why) {
    return test::throws_with<InvalidArgument>([&] { recipe.apply_set(setting); }, why);
  };
  EXPECT_TRUE(refused("tuning.train=codes,codes", "'codes' is listed twice"));
  EXPECT_TRUE(refused("tuning.train=code", "did you mean 'codes'"));
  EXPECT_TRUE(refused("tuning.train=", "expected palettes, scales, biases, codes, got ''"));
  EXPECT_TRUE(refused("tuning.trai=codes", "did you mean 'train'"));
}

TEST(Setting, GivesScalarPresetsAPalettePerRowAsTheirCommentsSay) {
  for (const auto preset : {"scalar", "scalar-mixed"}) {
    auto recipe = Recipe::preset(preset);
    for (const auto setting : {"granularity=channel", "scaling=none", "sign=plain", "joint_iterations=0"})
      recipe.apply_set(setting);
    EXPECT_NO_THROW(recipe.validate()) << preset;
    EXPECT_EQ(recipe.settings("x").granularity, Granularity::kChannel);
  }
}

TEST(Recipe, BestIsWindowedWithLongerWindowsAndMoreBits) {
  auto windowed = Recipe::preset("windowed");
  windowed.apply_set("bits=4");
  windowed.apply_set("window_bits=8");
  EXPECT_EQ(Recipe::preset("best").canonical_json(), windowed.canonical_json());
  const auto tuned = Recipe::preset("best-tuned").canonical_json();
  EXPECT_EQ(tuned["defaults"], windowed.canonical_json()["defaults"]);
  auto with_codes = tuned["tuning"];  // of windows, which overlap, codes cannot be trained
  with_codes["train"].push_back("codes");
  with_codes["code_travel"] = 1.0;
  EXPECT_EQ(with_codes, Recipe::preset("scalar-tuned").canonical_json()["tuning"]);
}

TEST(Recipe, BestOfTwoBitsCarriesGuidesAlong) {
  auto best = Recipe::preset("best");
  best.apply_set("bits=2");
  EXPECT_NE(Recipe::preset("best-2-bit").canonical_json(), best.canonical_json());
  best.apply_set("guided_inputs=drifted");
  EXPECT_EQ(Recipe::preset("best-2-bit").canonical_json(), best.canonical_json());
}

TEST(Recipe, WhatEndsWithOneShotNeedsNoText) {
  for (const std::string preset : {"scalar", "windowed", "best"}) {
    auto corrected = Recipe::preset(preset + "-one-shot");
    EXPECT_FALSE(corrected.settings("x").sequential);
    corrected.apply_set("sequential=true");
    corrected.apply_set("drift_correction=1");
    EXPECT_EQ(Recipe::preset(preset).canonical_json(), corrected.canonical_json());
  }
}

TEST(Recipe, OfMixedWindowsIsThatOfWindowsAndABudget) {
  const auto windowed = Recipe::preset("windowed"), mixed = Recipe::preset("windowed-mixed");
  EXPECT_EQ(mixed.canonical_json()["defaults"], windowed.canonical_json()["defaults"]);
  EXPECT_EQ(mixed.budget()->bits, (std::vector<unsigned>{1, 2, 3, 4}));
  EXPECT_EQ(mixed.budget()->granularity, std::vector{Granularity::kTensor});
  EXPECT_FALSE(windowed.budget());
  auto best = Recipe::preset("best");
  best.apply_set("bits=3");
  const auto best_mixed = Recipe::preset("best-mixed");
  EXPECT_EQ(best_mixed.canonical_json()["defaults"], best.canonical_json()["defaults"]);
  EXPECT_EQ(best_mixed.budget()->bits, (std::vector<unsigned>{1, 2, 3, 4}));
  EXPECT_EQ(best_mixed.budget()->bits_per_weight, 3.1);
}

TEST(Setting, LeavesCopiesAlone) {
  const auto original = Recipe::preset("palette");
  auto copy = original;
  copy.apply_set("bits", "2");
  EXPECT_EQ(original.settings("x").bits, 4u);
  EXPECT_EQ(copy.settings("x").bits, 2u);
}

TEST(RecipeFile, IsLoadedOrNamedInTheError) {
  const test::TempDir dir;
  test::write_file(dir / "r.yaml", "defaults: {bits: 3}\n");
  EXPECT_EQ(Recipe::load(dir / "r.yaml").settings("x").bits, 3u);
  EXPECT_TRUE(test::throws_with<FormatError>([&] { Recipe::load(dir / "absent.yaml"); }, "absent.yaml"));
  test::write_file(dir / "big.yaml", std::string(300'000, '#'));
  EXPECT_TRUE(test::throws_with<FormatError>([&] { Recipe::load(dir / "big.yaml"); }, "big.yaml"));
}

}  // namespace
}  // namespace nibble::quant

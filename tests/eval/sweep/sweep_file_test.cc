#include "eval/sweep/sweep_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::eval {
namespace {

const std::string kHead = "models: [a/m, {path: b, name: other}]\nevaluations: [{name: e, tokens: t.u16}]\n";

SweepSpec parse(const std::string& cells) { return parse_sweep(kHead + cells, "s"); }

testing::AssertionResult refused(const std::string& yaml, std::string_view first, std::string_view second = "") {
  return test::throws_with<InvalidArgument>([&] { parse_sweep(yaml, "sweep 's.yaml'"); }, "sweep 's.yaml'", first,
                                            second);
}

TEST(SweepFile, AGridIsAProductWhoseLastAxisRunsFastest) {
  const SweepSpec spec = parse("grid: {weighting: [none, fisher], bits: [4, 3, 2], format: palette}");
  ASSERT_EQ(spec.recipes.size(), 6u);
  EXPECT_EQ(spec.recipes[0].name, "weighting=none bits=4");
  EXPECT_EQ(spec.recipes[1].name, "weighting=none bits=3");
  EXPECT_EQ(spec.recipes[5].name, "weighting=fisher bits=2");
  EXPECT_EQ(spec.recipes[5].recipe->settings("h.0.mlp.c_fc.weight").bits, 2u);
  EXPECT_EQ(spec.cells.size(), 2u * 6u);
  EXPECT_EQ(spec.models[0].name, "m");
  EXPECT_EQ(spec.models[1].name, "other");
}

TEST(SweepFile, DefaultsHoldForTheGridAndForEntriesWithoutAPreset) {
  const SweepSpec spec =
      parse("defaults: {granularity: channel}\ngrid: {bits: 3}\nlist: [{bits: 2}, {preset: palette}, float]");
  ASSERT_EQ(spec.recipes.size(), 4u);
  const auto granularity = [&](std::size_t i) { return spec.recipes[i].recipe->settings("x").granularity; };
  EXPECT_EQ(granularity(0), quant::Granularity::kChannel);
  EXPECT_EQ(granularity(1), quant::Granularity::kChannel);
  EXPECT_EQ(granularity(2), quant::Granularity::kTensor);
  EXPECT_FALSE(spec.recipes[3].recipe);
  EXPECT_EQ(spec.recipes[3].name, "float");
}

TEST(SweepFile, ExclusionsCoverGivenAndDefaultSettingsModelsAndEvaluations) {
  const std::string grid = "grid: {bits: [4, 3], shifting: [false, true]}\n";
  EXPECT_EQ(parse(grid + "exclude: [{bits: 3}]").cells.size(), 2u * 2u);
  EXPECT_EQ(parse(grid + "exclude: [{bits: 3, shifting: true}]").cells.size(), 2u * 3u);
  EXPECT_EQ(parse(grid + "exclude: [{model: other, bits: [3, 4]}]").cells.size(), 4u);
  EXPECT_EQ(parse(grid + "exclude: [{weighting: none, model: m}]").cells.size(), 4u);  // none is the default
  EXPECT_TRUE(refused(kHead + grid + "exclude: [{evaluation: e}]", "there are no cells"));
  EXPECT_TRUE(refused(kHead + grid + "exclude: [{}]", "there are no cells", "'exclude' leaves out all"));
}

TEST(SweepFile, NamesThatNothingHasAreNotExcluded) {
  const std::string cells = "grid: {bits: [4, 3]}\nlist: [float, {bits: 2, name: two}]\n";
  const auto refuses = [&](const std::string& entry, const std::string& reason) {
    return refused(kHead + cells + "exclude:\n  - " + entry, "line 6: exclude: " + reason);
  };
  EXPECT_TRUE(refuses("{model: othr}", "model: expected the name of a model, got 'othr'; did you mean 'other'?"));
  EXPECT_TRUE(refuses("{evaluation: [e, f], bits: 2}", "evaluation: expected the name of an evaluation, got 'f'"));
  EXPECT_TRUE(refuses("{recipe: 'two, 4 windows'}",
                      "recipe: expected the name of a recipe (without windows or seed of the text)"));
  EXPECT_EQ(parse(cells + "exclude: [{recipe: [two, float]}]").cells.size(), 2u * 2u);
  EXPECT_EQ(parse(cells + "exclude: [{bits: 4}, {recipe: bits=4, model: m}]").cells.size(), 2u * 3u);
}

// One of them would be dropped, whichever it is.
TEST(SweepFile, APresetAndARecipeOfOneCellAreRefused) {
  constexpr const char* kBoth = "both name a whole recipe";
  EXPECT_TRUE(
      refused(kHead + "grid: {preset: [int4-block, palette], recipe: [r.yaml]}\n", "grid: preset and recipe", kBoth));
  EXPECT_TRUE(refused(kHead + "list:\n  - {recipe: r.yaml, preset: int4-block}\n", "list: preset and recipe", kBoth));
  EXPECT_TRUE(refused(kHead + "defaults: {preset: palette, recipe: r.yaml}\nlist: [{bits: 3}]\n",
                      "defaults: preset and recipe", kBoth));
  EXPECT_EQ(parse("defaults: {preset: int4-block}\nlist: [{preset: palette}]\n").recipes.size(), 1u);
}

TEST(SweepFile, WhatIsExcludedNeedNotMakeSense) {
  const std::string grid = "grid: {scaling: [none, std], sign: [plain, flip]}\n";
  EXPECT_TRUE(refused(kHead + grid, "line 3: cell scaling=none sign=flip", "`exclude`"));
  EXPECT_EQ(parse(grid + "exclude: [{scaling: none, sign: flip}]").recipes.size(), 3u);
}

TEST(SweepFile, EvaluationsAndCalibrationTakeTheOptionsOfTheCommands) {
  const SweepSpec spec = parse_sweep(
      "models: [m]\n"
      "calibration: {text: [a.txt, b.jsonl], samples: 7, seed: 3, fisher: position, guide: whitened, "
      "bos: true, collect: [hessian]}\n"
      "evaluations: [{text: w.raw, hf_join: true, context: 1024, stride: 512, average: tokens, divergence: true},\n"
      "              {text: w.raw, bos: true}]\n"
      "list: [float]\n",
      "s");
  ASSERT_TRUE(spec.calibration);
  EXPECT_EQ(spec.calibration->text.size(), 2u);
  EXPECT_EQ(spec.calibration->samples, std::vector<std::uint64_t>{7});
  EXPECT_EQ(spec.calibration->flavour, calib::FisherFlavour::kPosition);
  EXPECT_EQ(spec.calibration->guide, calib::Guide::kWhitened);
  EXPECT_TRUE(spec.calibration->collect.hessian);
  EXPECT_FALSE(spec.calibration->collect.fisher);
  const SweepEvaluation& evaluation = spec.evaluations[0];
  EXPECT_EQ(evaluation.name, "w sliding");
  EXPECT_TRUE(evaluation.hf_join);
  EXPECT_EQ(evaluation.stride, 512u);
  EXPECT_EQ(evaluation.average, Average::kTokens);
  EXPECT_TRUE(evaluation.divergence);
  EXPECT_FALSE(evaluation.bos);
  EXPECT_TRUE(spec.calibration->bos);
  EXPECT_TRUE(spec.evaluations[1].bos);
  EXPECT_EQ(spec.evaluations[1].name, "w sliding behind the BOS");
}

TEST(SweepFile, ATextOfTheCalibrationIsListedOnce) {
  const std::string head = "models: [m]\nevaluations: [{tokens: t.u16}]\nlist: [float, {bits: 3}]\n";
  EXPECT_TRUE(refused(head + "calibration: {text: [a.txt, b.txt, ./a.txt]}\n", "line 4", "'./a.txt' is listed twice"));
  const test::TempDir temp;
  test::write_file(temp / "a.txt", "text");
  std::filesystem::create_symlink("a.txt", temp / "b.txt");
  const std::string calibration =
      "calibration: {text: [" + (temp / "a.txt").string() + ", " + (temp / "b.txt").string() + "]}\n";
  EXPECT_TRUE(refused(head + calibration, "line 4", "b.txt' is listed twice"));
}

TEST(SweepFile, SeveralSizesOfTheCalibrationMakeACellEach) {
  const std::string head = "models: [m]\nevaluations: [{tokens: t.u16}]\nlist: [float, {bits: 3}]\n";
  const SweepSpec spec = parse_sweep(head + "calibration: {text: a.txt, samples: [64, 256, 1024]}\n", "s");
  EXPECT_EQ(spec.calibration->samples, (std::vector<std::uint64_t>{64, 256, 1024}));
  ASSERT_EQ(spec.cells.size(), 4u) << "the float model is calibrated on nothing";
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(spec.cells[i].recipe, 1u);
    EXPECT_EQ(spec.cells[i].draw, i - 1);
  }
  EXPECT_TRUE(refused(head + "calibration: {text: a.txt, samples: [64, 64]}\n", "line 4", "each once"));
  EXPECT_TRUE(refused(head + "calibration: {text: a.txt, samples: 0}\n", "line 4", "got '0'"));
  EXPECT_TRUE(refused(head + "calibration: {text: a.txt, samples: many}\n", "line 4", "whole numbers"));
}

TEST(SweepFile, SeveralSeedsOfTheCalibrationMakeACellEach) {
  const std::string head = "models: [m]\nevaluations: [{tokens: t.u16}]\nlist: [float, {bits: 3}]\n";
  const SweepSpec spec =
      parse_sweep(head + "calibration: {text: a.txt, samples: [64, 256], seed: [0, 5, 18446744073709551615]}\n", "s");
  ASSERT_EQ(spec.cells.size(), 7u);
  EXPECT_EQ(spec.cells[6].draw, 5u);
  const CalibrationDraw second = spec.calibration->draw(1), last = spec.calibration->draw(5);
  EXPECT_EQ(second.samples, 64u);
  EXPECT_EQ(second.seed, 5u);
  EXPECT_EQ(last.samples, 256u);
  EXPECT_EQ(last.seed, ~std::uint64_t{0});
  EXPECT_TRUE(refused(head + "calibration: {text: a.txt, seed: [1, 1]}\n", "line 4", "each once"));
  EXPECT_TRUE(refused(head + "calibration: {text: a.txt, seed: -1}\n", "line 4", "got '-1'"));
  EXPECT_TRUE(refused(head + "calibration: {tokens: a.u16, seed: [1, 2]}\n", "line 4", "as they are"));
  EXPECT_TRUE(refused(head + "calibration: {tokens: a.u16, seed: 1}\n", "line 4", "seed: tokens are taken"));
  EXPECT_TRUE(refused(head + "calibration: {tokens: a.u16, field: body}\n", "line 4", "field: tokens are taken"));
  EXPECT_TRUE(
      refused(head + "calibration: {text: [a.txt, b.raw.gz], field: body}\n", "line 4", "belongs to JSON lines"));
  EXPECT_EQ(parse_sweep(head + "calibration: {text: [a.txt, b.jsonl.gz], field: body}\n", "s").calibration->field,
            "body");
  // Sampled labels are drawn with it.
  const SweepSpec sampled = parse_sweep(head + "calibration: {tokens: a.u16, labels: sampled, seed: [1, 2]}\n", "s");
  EXPECT_EQ(sampled.calibration->draws(), 2u);
  std::string numbers = "1";
  for (int i = 2; i <= 400; ++i) numbers += ", " + std::to_string(i);
  const std::string many = "calibration: {text: a.txt, samples: [" + numbers + "], seed: [" + numbers + "]}\n";
  EXPECT_TRUE(refused(head + many, "line 4", "more than 100000 draws"));
}

TEST(SweepFile, AnEvaluationMayHaveSeveralTextsAndSayWhatTheyAreFor) {
  const std::string head = "models: [m]\nlist: [float]\nevaluations:\n";
  const SweepSpec spec = parse_sweep(
      head + "  - {text: [a.txt, b.txt], use: test}\n  - {tokens: [x.u16], use: validation}\n  - {text: c.txt}\n", "s");
  ASSERT_EQ(spec.evaluations.size(), 3u);
  EXPECT_EQ(spec.evaluations[0].text, (std::vector<std::filesystem::path>{"a.txt", "b.txt"}));
  EXPECT_EQ(spec.evaluations[0].use, "test");
  EXPECT_EQ(spec.evaluations[0].name, "a sliding");
  EXPECT_EQ(spec.evaluations[1].tokens, (std::vector<std::filesystem::path>{"x.u16"}));
  EXPECT_EQ(spec.evaluations[1].use, "validation");
  EXPECT_EQ(spec.evaluations[2].use, "");
  EXPECT_TRUE(refused(head + "  - {text: [b, ./a], use: validation, name: v}\n  - {text: a, use: test, name: t}\n",
                      "'a' is validation in 'v' and test in 't'", "a text has one use"));
  const std::string whole = std::filesystem::absolute("a").string();
  EXPECT_TRUE(refused(head + "  - {text: a, use: validation, name: v}\n  - {text: " + whole + ", use: test, name: t}\n",
                      "is validation in 'v' and test in 't'", "a text has one use"));
  for (const char* kind : {"text", "tokens"}) {
    const std::string calibration = fmt::format("calibration: {{{}: ./a}}\n", kind);
    EXPECT_TRUE(refused(calibration + head + fmt::format("  - {{{}: a, use: test, name: t}}\n", kind),
                        "'a' is calibration in 'calibration' and test in 't'"));
    EXPECT_NO_THROW(parse_sweep(calibration + head + fmt::format("  - {{{}: a, use: calibration}}\n", kind), "s"));
  }
  EXPECT_NO_THROW(parse_sweep(head +
                                  "  - {text: a, use: test, name: s}\n  - {text: a, use: test, name: t, context: 8}\n"
                                  "  - {text: a, name: u}\n",
                              "s"));
  EXPECT_TRUE(refused(head + "  - {text: a, use: training}", "line 4", "expected calibration, validation or test"));
  EXPECT_TRUE(refused(head + "  - {text: a, tokens: b}", "line 4", "one of them"));
  EXPECT_TRUE(refused(head + "  - {text: [a, b, ./a]}", "line 4", "'./a' is listed twice"));
}

TEST(SweepFile, AnEvaluationOfSpeedTakesTheOptionsOfItsCommand) {
  const std::string head = "models: [m]\nlist: [float]\nevaluations:\n";
  const SweepSpec spec = parse_sweep(
      head +
          "  - {name: fast, speed: {contexts: [16, 64], generate: 8, cache: window, cache_type: int8, repeat: 2}}\n"
          "  - {speed: {prompt: 12}}\n",
      "s");
  ASSERT_EQ(spec.evaluations.size(), 2u);
  EXPECT_EQ(spec.evaluations[0].name, "fast");
  const SweepSpeed& speed = spec.evaluations[0].speed.value();
  EXPECT_EQ(speed.contexts, (std::vector<std::size_t>{16, 64}));
  EXPECT_EQ(speed.generate, 8u);
  EXPECT_EQ(speed.repeat, 2u);
  EXPECT_EQ(speed.cache, model::CacheKind::kWindow);
  EXPECT_EQ(speed.cache_type, model::CacheType::kInt8);
  EXPECT_EQ(spec.evaluations[1].name, "speed");
  EXPECT_EQ(spec.evaluations[1].speed.value().prompt, 12u);
  EXPECT_TRUE(refused(head + "  - {speed: {contexts: 3}}", "line 4: speed: contexts: expected whole numbers from 4"));
  EXPECT_TRUE(refused(head + "  - {speed: {cache: stat}}", "line 4", "did you mean 'state'?"));
  EXPECT_TRUE(refused(head + "  - {speed: {}, text: t}", "line 4", "text has no meaning beside speed"));
}

TEST(SweepFile, CellsHaveBudgetsOfTheirOwn) {
  const SweepSpec listed = parse(
      "list: [{preset: scalar-mixed, budget.bits: [2, 3], budget.window_bits: [0, 6], budget.bits_per_weight: 2.5}]");
  const SweepSpec grid =
      parse("grid: {preset: scalar-mixed, budget.bits: [\"2,3\", \"4\"], budget.bits_per_weight: [4.1, 4.5]}");
  ASSERT_EQ(listed.recipes.size(), 1u);
  const quant::Budget& budget = *listed.recipes[0].recipe->budget();
  EXPECT_EQ(budget.bits, (std::vector<unsigned>{2, 3}));
  EXPECT_EQ(budget.window_bits, (std::vector<unsigned>{0, 6}));
  EXPECT_EQ(budget.bits_per_weight, 2.5);
  ASSERT_EQ(grid.recipes.size(), 4u);
  EXPECT_EQ(grid.recipes[1].recipe->budget()->bits, (std::vector<unsigned>{2, 3}));
  EXPECT_EQ(grid.recipes[1].recipe->budget()->bits_per_weight, 4.5);
  EXPECT_EQ(grid.recipes[2].recipe->budget()->bits, (std::vector<unsigned>{4}));
}

TEST(SweepFile, CellsHaveTuningOfTheirOwn) {
  const SweepSpec listed = parse("list: [{preset: scalar-tuned, tuning.epochs: 2, tuning.train: [palettes, codes]}]");
  ASSERT_EQ(listed.recipes.size(), 1u);
  const quant::Tuning tuning = *listed.recipes[0].recipe->tuning();
  EXPECT_EQ(tuning.epochs, 2u);
  EXPECT_TRUE(tuning.palettes && tuning.codes);
  EXPECT_FALSE(tuning.scales || tuning.biases);
  const SweepSpec grid = parse("grid: {preset: scalar-tuned, tuning.train: [\"palettes\", \"palettes,codes\"]}");
  ASSERT_EQ(grid.recipes.size(), 2u);
  EXPECT_FALSE(grid.recipes[0].recipe->tuning()->codes);
  EXPECT_TRUE(grid.recipes[1].recipe->tuning()->codes);
}

TEST(SweepFile, ACheckpointThatIsThereIsACellOfItsOwnWithNothingToSet) {
  const SweepSpec spec = parse(
      "defaults: {bits: 3}\nlist: [float, {checkpoint: 'q/{model}.gguf', name: Q4_1}, {checkpoint: q/b}, {shifting: "
      "true}]\n"
      "exclude: [{recipe: q/b, model: m}, {bits: 3}]");
  ASSERT_EQ(spec.recipes.size(), 4u);
  EXPECT_EQ(spec.recipes[1].name, "Q4_1");
  EXPECT_EQ(spec.recipes[1].checkpoint, "q/{model}.gguf");
  EXPECT_FALSE(spec.recipes[1].recipe) << "the defaults are no business of it";
  EXPECT_EQ(spec.recipes[2].name, "q/b");
  EXPECT_TRUE(spec.recipes[3].checkpoint.empty());
  EXPECT_EQ(spec.cells.size(), 2u + 2u + 1u);
  EXPECT_TRUE(
      refused(kHead + "list:\n  - {checkpoint: q, bits: 3}", "line 4", "bits has no meaning beside checkpoint"));
  EXPECT_TRUE(refused(kHead + "list:\n  - {checkpoint: ''}", "line 4", "expected a path"));
  EXPECT_TRUE(refused(kHead + "list:\n  - {checkpoint: [a, b]}", "line 4", "list: checkpoint"));
  EXPECT_TRUE(refused(kHead + "list:\n  - {checkpoint: 'q/{Model}'}", "line 4", "braces but for {model}"));
  EXPECT_TRUE(refused(kHead + "list:\n  - {checkpont: q}", "line 4", "did you mean 'checkpoint'?"));
  EXPECT_TRUE(refused(kHead + "list:\n  - {nmae: q, checkpoint: q}", "line 4", "did you mean 'name'?"));
  EXPECT_TRUE(refused(kHead + "grid: {checkpoint: [a, b]}", "unknown key 'checkpoint'"));
  EXPECT_TRUE(refused(kHead + "list: [{checkpoint: q}, {checkpoint: q}]", "two are called 'q'"));
}

TEST(SweepFile, MistakesAreNamedWithLineAndNearestName) {
  const std::string cells = "list: [float]\n";
  EXPECT_TRUE(refused(kHead + "gird: {bits: 4}\n", "line 3", "did you mean 'grid'?"));
  EXPECT_TRUE(refused(kHead + "grid:\n  bits: 4\n  wieghting: none\n", "line 5", "did you mean 'weighting'?"));
  EXPECT_TRUE(refused(kHead + "grid: {bits: 9}\n", "line 3: cell bits=9"));
  EXPECT_TRUE(refused(kHead + "list: [{budget.bits: [2, 3]}]\n", "line 3", "bits_per_weight is missing"));
  EXPECT_TRUE(refused(kHead + "list: [{bits: [2, 3]}]\n", "line 3", "list: bits"));
  EXPECT_TRUE(refused(kHead + "list: [{budget.bit: 3}]\n", "line 3", "did you mean 'budget.bits'?"));
  EXPECT_TRUE(refused(kHead + "list: [floatt]\n", "line 3", "'float'"));
  EXPECT_TRUE(refused(kHead + cells + "exclude: [{bits: many}]\n", "line 4"));
  EXPECT_TRUE(refused("evaluations: [{tokens: t}]\n" + cells, "'models' is missing"));
  EXPECT_TRUE(refused("models: [a, b/a]\nevaluations: [{tokens: t}]\n" + cells, "two are called 'a'", "`name`"));
  EXPECT_TRUE(refused("models: [a]\nevaluations: [{tokens: t, text: u}]\n" + cells, "line 2", "text, tokens or speed"));
  EXPECT_TRUE(refused("models: [a]\nevaluations:\n  - {tokens: t, protocol: blocks, stride: 4}\n" + cells, "line 3",
                      "stride belongs to protocol sliding"));
  EXPECT_TRUE(refused("models: [a]\nevaluations:\n  - {tokens: t, protocol: half, bos: true}\n" + cells, "line 3",
                      "begin with the BOS unasked"));
  EXPECT_TRUE(refused("models: [a]\nevaluations: [{tokens: t, context: -1}]\n" + cells, "line 2", "whole number"));
  EXPECT_TRUE(refused(kHead + "calibration: {tokens: c, fisher: sequential}\n" + cells, "line 3", "'sequence'"));
  std::string many = kHead + "grid:\n";
  for (const char* key : {"bits", "seed", "joint_iterations", "codebook_iterations", "damping", "weighting"}) {
    many += std::string("  ") + key + ": [0";
    for (int i = 1; i < 20; ++i) many += "," + std::to_string(i);
    many += "]\n";
  }
  EXPECT_TRUE(refused(many, "more than 100000 cells"));
}

}  // namespace
}  // namespace nibble::eval

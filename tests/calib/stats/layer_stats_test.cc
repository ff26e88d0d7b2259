#include "calib/stats/layer_stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "calib/stats/statistic_set.h"
#include "core/error.h"
#include "tests/calib/stats/example_stats.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::calib {
namespace {

TEST(StatisticSet, NamesRoundTrip) {
  for (const char* text : {"activations", "fisher", "activations,fisher", "output-hessian",
                           "activations,fisher,hessian,guided-hessian,output-hessian"})
    EXPECT_EQ(to_text(parse_statistic_set(text)), text);
  EXPECT_EQ(parse_statistic_set("fisher,activations"), parse_statistic_set("activations,fisher"));
}

TEST(StatisticSet, TheOutputHessianIsAStatisticLikeTheOthers) {
  constexpr StatisticSet kOutputs{.output_hessian = true};
  EXPECT_EQ(parse_statistic_set("output-hessian"), kOutputs);
  EXPECT_TRUE(kOutputs.needs_gradients());
  EXPECT_TRUE(kEverything.includes(kOutputs));
  EXPECT_FALSE(kOutputs.includes({.hessian = true}));
  EXPECT_FALSE((StatisticSet{.hessian = true, .guided_hessian = true}).includes(kOutputs));
  EXPECT_EQ(either(kOutputs, {.fisher = true}), (StatisticSet{.fisher = true, .output_hessian = true}));
}

TEST(StatisticSet, AnUnknownNameSuggestsTheNearest) {
  EXPECT_TRUE(
      test::throws_with<InvalidArgument>([] { parse_statistic_set("fischer"); }, "'fischer'", "did you mean 'fisher'"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([] { parse_statistic_set("output_hessian"); },
                                                 "guided-hessian, output-", "did you mean 'output-hessian'"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([] { parse_statistic_set(""); }, "got ''"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([] { parse_statistic_set("fisher,"); }, "got ''"));
}

TEST(LayerSums, AddingPartsGivesTheSumsOfAll) {
  const LayerStats a = example_layer("h.0.attn.c_attn", 5, 3, 1), b = example_layer("h.0.attn.c_attn", 5, 3, 2);
  LayerSums sums("h.0.attn.c_attn", 5, 3, kEverything);
  sums.add(a);
  sums.add(b);
  const LayerStats merged = sums.rounded();
  EXPECT_EQ(merged.tokens, a.tokens + b.tokens);
  EXPECT_EQ(merged.samples, a.samples + b.samples);
  EXPECT_EQ(merged.sum_s, a.sum_s + b.sum_s);
  EXPECT_EQ(*merged.sum_s2, *a.sum_s2 + *b.sum_s2);
  LayerStats old = a;  // of a file without it
  old.sum_s2.reset();
  sums.add(old);
  EXPECT_FALSE(sums.rounded().sum_s2);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(merged.sum_x[i], a.sum_x[i] + b.sum_x[i]);
    EXPECT_EQ(merged.sum_x2[i], a.sum_x2[i] + b.sum_x2[i]);
    EXPECT_EQ(merged.sum_abs_x[i], a.sum_abs_x[i] + b.sum_abs_x[i]);
    EXPECT_EQ(merged.sum_s_x[i], a.sum_s_x[i] + b.sum_s_x[i]);
    EXPECT_EQ(merged.min_x[i], std::min(a.min_x[i], b.min_x[i]));
    EXPECT_EQ(merged.max_x[i], std::max(a.max_x[i], b.max_x[i]));
  }
  // The sum of two floats is exact in double, so rounding it once is what a float addition does.
  for (std::size_t i = 0; i < 15; ++i) EXPECT_EQ(merged.fisher.data()[i], a.fisher.data()[i] + b.fisher.data()[i]);
  for (std::size_t i = 0; i < 25; ++i)
    EXPECT_EQ(merged.sum_dydyt.data()[i], a.sum_dydyt.data()[i] + b.sum_dydyt.data()[i]);
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(merged.sum_xxt.data()[i], a.sum_xxt.data()[i] + b.sum_xxt.data()[i]);
    EXPECT_EQ(merged.sum_s_xxt.data()[i], a.sum_s_xxt.data()[i] + b.sum_s_xxt.data()[i]);
  }
}

// Its stored extremes, 0, are nobody's.
TEST(LayerSums, APartWithoutTokensLeavesTheExtremes) {
  LayerStats some = example_layer("expert", 5, 3, 1);
  some.min_x = {1.0f, 2.0f, -5.0f};
  some.max_x = {3.0f, 2.5f, -4.0f};
  const LayerStats none = LayerSums("expert", 5, 3, kEverything).rounded();
  for (const bool first : {true, false}) {
    LayerSums sums("expert", 5, 3, kEverything);
    sums.add(first ? none : some);
    sums.add(first ? some : none);
    EXPECT_EQ(sums.rounded().min_x, some.min_x);
    EXPECT_EQ(sums.rounded().max_x, some.max_x);
  }
}

TEST(LayerSums, OtherLayersShapesAndStatisticsAreRefused) {
  LayerSums sums("a", 5, 3, kEverything);
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { sums.add(example_layer("b", 5, 3, 1)); }, "'b'", "'a'"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { sums.add(example_layer("a", 3, 5, 1)); }, "(3, 5)", "(5, 3)"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { sums.add(example_layer("a", 5, 3, 1, {.fisher = true})); },
                                                 "with fisher does not fit"));
  StatisticSet without = kEverything;
  without.output_hessian = false;
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { sums.add(example_layer("a", 5, 3, 1, without)); },
                                                 "guided-hessian does not fit"));
}

TEST(LayerSums, OfOutputsAreSquareInTheOutputsAndRoundedOnce) {
  LayerSums sums("a", 3, 2, {.output_hessian = true});
  ASSERT_EQ(sums.sum_dydyt.rows(), 3u);
  ASSERT_EQ(sums.sum_dydyt.cols(), 3u);
  EXPECT_EQ(sums.sum_xxt.size(), 0u);
  sums.sum_dydyt(0, 2) = 1.0 + 0x1p-30;
  sums.sum_dydyt(1, 1) = 1.0 + 0x1p-23 + 0x1p-40;
  const LayerStats layer = sums.rounded();
  EXPECT_EQ(layer.sum_dydyt(0, 2), 1.0f);
  EXPECT_EQ(layer.sum_dydyt(1, 1), 1.0f + 0x1p-23f);
  EXPECT_EQ(layer.sum_dydyt(2, 0), 0.0f);
  EXPECT_EQ(layer.holds(), (StatisticSet{.output_hessian = true}));
}

TEST(CheckLayer, ConsistentStatisticsPass) {
  for (const StatisticSet set :
       {kEverything, StatisticSet{.activations = true}, StatisticSet{.fisher = true}, StatisticSet{.hessian = true},
        StatisticSet{.guided_hessian = true}, StatisticSet{.output_hessian = true}})
    EXPECT_NO_THROW(check_layer(example_layer("layer", 5, 3, 1, set), "test"));
}

TEST(CheckLayer, ImpossibleValuesAreNamed) {
  const auto fails = [](auto change, auto... words) {
    LayerStats layer = example_layer("layer", 5, 3, 1);
    change(layer);
    return test::throws_with<FormatError>([&] { check_layer(layer, "file"); }, "file", words...);
  };
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(fails([](LayerStats& l) { l.fisher(2, 1) = kNan; }, "'fisher'", "'layer'", "nan", "index 7"));
  EXPECT_TRUE(fails([](LayerStats& l) { l.fisher(0, 0) = -1e-9f; }, "'fisher'", "not negative"));
  EXPECT_TRUE(fails([](LayerStats& l) { l.sum_x[1] = HUGE_VAL; }, "'sum_x'", "inf", "index 1"));
  EXPECT_TRUE(fails([](LayerStats& l) { l.sum_x2[1] = -1.0; }, "'sum_x2'", "not negative"));
  EXPECT_TRUE(fails([](LayerStats& l) { l.sum_abs_x.pop_back(); }, "'sum_abs_x'", "2 values", "expected 3"));
  EXPECT_TRUE(fails([](LayerStats& l) { l.min_x[2] = 1e9f; }, "min_x", "above max_x"));
  EXPECT_TRUE(fails([](LayerStats& l) { l.max_x[2] = kInfinity; }, "'max_x'", "inf"));
  EXPECT_TRUE(fails([](LayerStats& l) { l.sum_xxt(1, 1) = -1.0f; }, "'sum_xxt'", "negative diagonal"));
  EXPECT_TRUE(fails([](LayerStats& l) { l.sum_s_xxt(0, 1) = kNan; }, "'sum_s_xxt'", "nan"));
  EXPECT_TRUE(fails([](LayerStats& l) { l.sum_dydyt(4, 4) = -1.0f; }, "'sum_dydyt'", "negative diagonal, -1 at 4"));
  EXPECT_TRUE(fails([](LayerStats& l) { l.sum_dydyt(4, 3) = kNan; }, "'sum_dydyt'", "nan at index 23"));
  EXPECT_TRUE(
      fails([](LayerStats& l) { l.sum_dydyt = Matrix<float>(3, 3); }, "'sum_dydyt'", "9 values", "expected 25"));
  EXPECT_NO_THROW(check_layer(LayerSums("e", 5, 3, {.output_hessian = true}).rounded(), "no gradient at all"));
  EXPECT_NO_THROW(check_layer(LayerSums("e", 5, 3, {.activations = true}).rounded(), "no token at all"));
  EXPECT_TRUE(fails([](LayerStats& l) { l.sum_s = -1.0; }, "'sum_s'"));
  EXPECT_TRUE(fails([](LayerStats& l) { l.module = "a/b"; }, "'a/b'"));
  EXPECT_TRUE(fails([](LayerStats& l) { l.out = 0; }, "(0, 3)"));
}

TEST(LayerNames, OnlyOneLinkIsAllowed) {
  for (const char* name : {"h.0.attn.c_attn", "model.layers.3.mlp.up_proj", "...", "a b"})
    EXPECT_TRUE(is_valid_layer_name(name)) << name;
  for (const char* name : {"", ".", "..", "/", "a/b", "../x", "a/../b", "a\nb"})
    EXPECT_FALSE(is_valid_layer_name(name)) << name;
  EXPECT_FALSE(is_valid_layer_name(std::string(513, 'a')));
}

}  // namespace
}  // namespace nibble::calib

#include "model/transformer/layers/mlp.h"

#include <gtest/gtest.h>

#include <complex>

#include "tests/model/transformer/layers/toy_layers.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::test {
namespace {

using Complex = std::complex<double>;
using model::Activation;
using model::FeedForwardScratch;
using model::Mlp;
using model::MlpSpec;

constexpr double kStep = 1e-30;  // of the complex step: no subtraction, so the smaller the better
constexpr std::size_t kHidden = 12, kIntermediate = 19;

struct Case {
  Activation activation;
  bool gated;
};
const Case kCases[] = {{Activation::kSilu, true},      {Activation::kSilu, false},        {Activation::kGeluTanh, true},
                       {Activation::kGeluTanh, false}, {Activation::kGelu, true},         {Activation::kGelu, false},
                       {Activation::kRelu, true},      {Activation::kRelu, false},        {Activation::kRelu2, true},
                       {Activation::kRelu2, false},    {Activation::kClampedSwiglu, true}};

class MlpOf : public testing::TestWithParam<Case> {
 protected:
  ToyLayers layers{7};
  const MlpSpec spec = layers.add_mlp("mlp", GetParam().activation, GetParam().gated, kHidden, kIntermediate, true);
};

TEST_P(MlpOf, ForwardIsTheFormula) {
  const auto x = random_rows<float>(9, kHidden, 1, 2.0);
  Matrix<float> y(9, kHidden);
  FeedForwardScratch<float> scratch;
  const Mlp<float> mlp(spec, layers.factory<float>());
  mlp.forward(x, y, scratch, nullptr);
  for (std::size_t t = 0; t < 9; ++t) {
    const auto expected = naive::mlp(layers, spec, {x.row(t).begin(), x.row(t).end()});
    const std::vector<double> actual(y.row(t).begin(), y.row(t).end());
    // Sums of some 20 float products of values up to 10, two layers deep: 40 roundings of 6e-8 of that.
    EXPECT_TRUE(all_near(actual, expected, {.abs = 2e-5, .rel = 2e-5})) << t;
  }
}

TEST_P(MlpOf, GradientsAreThoseOfTheComplexStep) {
  const std::size_t tokens = 5;
  const auto x = random_rows<double>(tokens, kHidden, 2, 1.5), dy = random_rows<double>(tokens, kHidden, 3);
  const Mlp<double> mlp(spec, layers.factory<double>());
  FeedForwardScratch<double> scratch;
  Matrix<double> dx(tokens, kHidden);
  mlp.recompute(x, {}, scratch);
  Reports<double> reports;
  const auto hooks = reports.hooks();
  mlp.backward(x, dy, dx, scratch, &hooks);

  FeedForwardScratch<Complex> complex_scratch;
  Matrix<Complex> z(tokens, kHidden), y(tokens, kHidden);
  const auto loss_slope = [&](const Mlp<Complex>& network) {
    network.forward(z, y, complex_scratch, nullptr);
    double slope = 0.0;
    for (std::size_t i = 0; i < y.size(); ++i) slope += y.values()[i].imag() / kStep * dy.values()[i];
    return slope;
  };
  const auto reset = [&] {
    for (std::size_t i = 0; i < z.size(); ++i) z.values()[i] = x.values()[i];
  };
  const Mlp<Complex> complex_mlp(spec, layers.factory<Complex>());
  std::vector<double> expected;
  for (std::size_t i = 0; i < z.size(); ++i) {
    reset();
    z.values()[i] += Complex(0.0, kStep);
    expected.push_back(loss_slope(complex_mlp));
  }
  // Both sides are exact to a hundred roundings of doubles.
  EXPECT_TRUE(all_near(dx.values(), expected, {.abs = 1e-12, .rel = 1e-11}));

  reset();
  ASSERT_EQ(reports.gradients.size(), GetParam().gated ? 3u : 2u);
  for (const auto& report : reports.gradients) {
    EXPECT_TRUE(report.rows.empty());
    for (const auto& [row, col] : {std::pair<std::size_t, std::size_t>{0, 0}, {3, 7}, {11, 11}}) {
      double gradient = 0.0;
      for (std::size_t t = 0; t < tokens; ++t) gradient += report.dy(t, row) * report.x(t, col);
      const Mlp<Complex> changed(
          spec, layers.factory<Complex>([&, r = row, c = col](const std::string& module, Matrix<Complex>& weight) {
            if (module == report.module) weight(r, c) += Complex(0.0, kStep);
          }));
      EXPECT_TRUE(near(gradient, loss_slope(changed), {.abs = 1e-12, .rel = 1e-11})) << report.module;
    }
  }
}

TEST_P(MlpOf, RecomputeGivesTheSameOutput) {
  const auto x = random_rows<float>(6, kHidden, 4);
  Matrix<float> y(6, kHidden), again(6, kHidden);
  FeedForwardScratch<float> scratch;
  const Mlp<float> mlp(spec, layers.factory<float>());
  mlp.forward(x, y, scratch, nullptr);
  mlp.recompute(x, again, scratch);
  EXPECT_TRUE(same_bits(again.values(), y.values()));
}

INSTANTIATE_TEST_SUITE_P(Activations, MlpOf, testing::ValuesIn(kCases), [](const auto& test) {
  return std::string(model::activation_name(test.param.activation)) + (test.param.gated ? "_gated" : "_plain");
});

TEST(MlpTest, HooksSeeEachInputOnceAndNotWhatIsRecomputed) {
  ToyLayers layers(8);
  const MlpSpec spec = layers.add_mlp("mlp", Activation::kSilu, true, kHidden, kIntermediate, false);
  const Mlp<double> mlp(spec, layers.factory<double>());
  const auto x = random_rows<double>(3, kHidden, 5);
  Matrix<double> y(3, kHidden);
  FeedForwardScratch<double> scratch;
  Reports<double> reports;
  const auto hooks = reports.hooks();
  mlp.forward(x, y, scratch, &hooks);
  mlp.recompute(x, y, scratch);
  ASSERT_EQ(reports.inputs.size(), 3u);
  EXPECT_EQ(reports.inputs[0].module, "mlp.gate");
  EXPECT_EQ(reports.inputs[1].module, "mlp.up");
  EXPECT_EQ(reports.inputs[2].module, "mlp.down");
  EXPECT_TRUE(same_bits(reports.inputs[1].x.values(), x.values()));
  EXPECT_EQ(reports.inputs[2].x.cols(), kIntermediate);
}

TEST(MlpTest, NoRowsAreNoWork) {
  ToyLayers layers(9);
  const Mlp<float> mlp(layers.add_mlp("mlp", Activation::kGelu, true, kHidden, kIntermediate, true),
                       layers.factory<float>());
  Matrix<float> none(0, kHidden);
  FeedForwardScratch<float> scratch;
  mlp.forward(none, none, scratch, nullptr);
  mlp.recompute(none, {}, scratch);
  mlp.backward(none, none, none, scratch, nullptr);
}

TEST(MlpTest, WhatDoesNotFitIsRefused) {
  ToyLayers layers(10);
  MlpSpec spec = layers.add_mlp("mlp", Activation::kClampedSwiglu, true, kHidden, kIntermediate, false);
  FeedForwardScratch<float> scratch;
  const Mlp<float> mlp(spec, layers.factory<float>());
  Matrix<float> wrong(2, kHidden + 1), y(2, kHidden);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { mlp.forward(wrong, y, scratch, nullptr); }, "mlp.down", "(2, 13)"));
  spec.limit = 0.0;
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { Mlp<float>(spec, layers.factory<float>()); }, "limit", "got 0"));
  spec.limit = 7.0;
  spec.up.in = 5;
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { Mlp<float>(spec, layers.factory<float>()); }, "(19, 5)"));
}

}  // namespace
}  // namespace nibble::test

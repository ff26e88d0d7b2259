// Weights that make up for drifted inputs, beside normal equations solved in double.
#include "quant/job/network/layer_drift.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/matrix/view_source.h"
#include "core/random.h"
#include "tests/support/compare.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kTokens = 60, kIn = 7, kOut = 5;

struct Case {
  Matrix<float> w{kOut, kIn}, hessian{kIn, kIn};
  LayerDrift drift{.inputs = Matrix<float>(kIn, kIn), .stream = {}, .stream_mean = {}};
};

// Inputs whose sizes differ, which shrink, mix and get noise on their way through the quantized network; with `stream`
// so does what outputs are added to.
Case make_case(std::uint64_t seed, bool stream = false) {
  Random random(seed);
  Case made;
  for (std::size_t i = 0; i < made.w.size(); ++i) made.w.data()[i] = static_cast<float>(random.normal());
  for (std::size_t t = 0; t < kTokens; ++t) {
    double x[kIn], drifted[kIn];
    for (std::size_t j = 0; j < kIn; ++j) x[j] = random.normal() * (1.0 + static_cast<double>(j));
    for (std::size_t j = 0; j < kIn; ++j) drifted[j] = 0.8 * x[j] + 0.1 * x[(j + 1) % kIn] + 0.3 * random.normal();
    for (std::size_t i = 0; i < kIn; ++i)
      for (std::size_t j = 0; j < kIn; ++j) {
        made.drift.inputs(i, j) += static_cast<float>((x[i] - drifted[i]) * drifted[j] / kTokens);
        made.hessian(i, j) += static_cast<float>(drifted[i] * drifted[j] / kTokens);
      }
    if (!stream) continue;
    if (t == 0) made.drift.stream = Matrix<float>(kOut, kIn);
    for (std::size_t i = 0; i < kOut; ++i) {
      const double missed = 0.5 * x[i] - 0.2 * drifted[(i + 2) % kIn] + 0.3 * random.normal();
      for (std::size_t j = 0; j < kIn; ++j)
        made.drift.stream(i, j) += static_cast<float>(missed * drifted[j] / kTokens);
    }
  }
  return made;
}

// The row of Δ (H + Λ) = w D + S, by elimination with pivots.
std::vector<double> solved(const Case& given, std::size_t row, const FactorOptions& options) {
  double a[kIn][kIn + 1], mean = 0.0;
  for (std::size_t j = 0; j < kIn; ++j) mean += static_cast<double>(given.hessian(j, j)) / kIn;
  for (std::size_t j = 0; j < kIn; ++j) {
    a[j][kIn] = given.drift.stream.size() > 0 ? static_cast<double>(given.drift.stream(row, j)) : 0.0;
    for (std::size_t i = 0; i < kIn; ++i) {
      a[j][i] = static_cast<double>(given.hessian(i, j));
      a[j][kIn] += static_cast<double>(given.w(row, i)) * static_cast<double>(given.drift.inputs(i, j));
    }
    a[j][j] += options.damping * (options.unit == DampingUnit::kMean ? mean : a[j][j]);
  }
  for (std::size_t k = 0; k < kIn; ++k) {
    std::size_t pivot = k;
    for (std::size_t i = k; i < kIn; ++i)
      if (std::abs(a[i][k]) > std::abs(a[pivot][k])) pivot = i;
    std::swap(a[k], a[pivot]);
    for (std::size_t i = 0; i < kIn; ++i) {
      if (i == k) continue;
      const double f = a[i][k] / a[k][k];
      for (std::size_t j = k; j <= kIn; ++j) a[i][j] -= f * a[k][j];
    }
  }
  std::vector<double> x(kIn);
  for (std::size_t k = 0; k < kIn; ++k) x[k] = a[k][kIn] / a[k][k];
  return x;
}

TEST(DriftCorrected, SolvesTheNormalEquations) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed)
    for (const auto unit : {DampingUnit::kOwn, DampingUnit::kMean})
      for (const bool act_order : {true, false})
        for (const auto& [share, stream] : {std::pair(0.5, false), {1.0, false}, {1.0, true}, {0.5, true}}) {
          const Case given = make_case(seed, stream);
          const FactorOptions options{.damping = 0.01, .unit = unit, .act_order = act_order};
          const Matrix<float> target =
              drift_corrected(ViewSource(given.w.view()), given.drift, given.hessian.view(), options, share);
          for (std::size_t i = 0; i < kOut; ++i) {
            const std::vector<double> delta = solved(given, i, options);
            for (std::size_t j = 0; j < kIn; ++j)
              // Floats of the factor, 6e-8, times the condition of H + Λ, at most some 200 here, and a few roundings.
              EXPECT_TRUE(test::near(static_cast<double>(target(i, j)),
                                     static_cast<double>(given.w(i, j)) + share * delta[j], {.abs = 1e-4}))
                  << "seed " << seed << ", row " << i << ", column " << j;
          }
        }
}

// Beside sums over inputs, and streams, less their means.
TEST(LayerDrift, IsTakenAboutTheMeans) {
  Random random(4);
  Matrix<double> x(kTokens, kIn), drifted(kTokens, kIn), missed(kTokens, kOut);
  std::vector<double> then(kIn), now(kIn), missed_mean(kOut);
  for (std::size_t t = 0; t < kTokens; ++t) {
    for (std::size_t j = 0; j < kIn; ++j) {
      x(t, j) = random.normal() + static_cast<double>(j);
      drifted(t, j) = 0.7 * x(t, j) + 0.5 + 0.3 * random.normal();
      then[j] += x(t, j) / kTokens;
      now[j] += drifted(t, j) / kTokens;
    }
    for (std::size_t i = 0; i < kOut; ++i) {
      missed(t, i) = 2.0 + random.normal() + 0.4 * x(t, i);
      missed_mean[i] += missed(t, i) / kTokens;
    }
  }
  LayerDrift drift{.inputs = Matrix<float>(kIn, kIn), .stream = Matrix<float>(kOut, kIn), .stream_mean = missed_mean};
  Matrix<double> inputs(kIn, kIn), stream(kOut, kIn);
  for (std::size_t j = 0; j < kIn; ++j) {
    for (std::size_t i = 0; i < kIn; ++i) {
      double plain = 0.0;
      for (std::size_t t = 0; t < kTokens; ++t) {
        plain += (x(t, i) - drifted(t, i)) * drifted(t, j) / kTokens;
        inputs(i, j) += (x(t, i) - then[i] - drifted(t, i) + now[i]) * (drifted(t, j) - now[j]) / kTokens;
      }
      drift.inputs(i, j) = static_cast<float>(plain);
    }
    for (std::size_t i = 0; i < kOut; ++i) {
      double plain = 0.0;
      for (std::size_t t = 0; t < kTokens; ++t) {
        plain += missed(t, i) * drifted(t, j) / kTokens;
        stream(i, j) += (missed(t, i) - missed_mean[i]) * (drifted(t, j) - now[j]) / kTokens;
      }
      drift.stream(i, j) = static_cast<float>(plain);
    }
  }
  drift.centre(then, now);
  // Products of up to 7 by 5 are rounded to float once on each side of a difference: 35 · 2^-23.
  for (std::size_t j = 0; j < kIn; ++j) {
    for (std::size_t i = 0; i < kIn; ++i)
      EXPECT_TRUE(test::near(static_cast<double>(drift.inputs(i, j)), inputs(i, j), {.abs = 5e-6})) << i << ", " << j;
    for (std::size_t i = 0; i < kOut; ++i)
      EXPECT_TRUE(test::near(static_cast<double>(drift.stream(i, j)), stream(i, j), {.abs = 5e-6})) << i << ", " << j;
  }
}

TEST(LayerDrift, IsOfTheStreamWhereOutputsAreAddedToIt) {
  model::Parameter o, down, up;
  o.role = model::Role::kO, down.role = model::Role::kDown, up.role = model::Role::kUp;
  model::BlockSpec block;
  block.attention_norm = block.mlp_norm = model::NormSpec{};
  block.mlp.emplace();
  const auto added = [&] { return std::pair(is_added_to_stream(block, o), is_added_to_stream(block, down)); };
  EXPECT_EQ(added(), std::pair(true, true));
  EXPECT_FALSE(is_added_to_stream(block, up));
  block.attention_post_norm = model::NormSpec{};
  EXPECT_EQ(added(), std::pair(false, true));
  block.mlp_post_norm = model::NormSpec{};
  EXPECT_EQ(added(), std::pair(false, false));
  block.attention_post_norm.reset(), block.mlp_post_norm.reset();
  block.residual = model::BlockSpec::Residual::kParallel;
  EXPECT_EQ(added(), std::pair(true, true));
  block.mlp_norm.reset();
  EXPECT_EQ(added(), std::pair(true, true));
  block.attention_norm.reset();
  EXPECT_EQ(added(), std::pair(true, false)) << "Hooks::until does not tell that stream";
  block.residual_multiplier = 0.0;
  EXPECT_EQ(added(), std::pair(false, false));
  block.residual_multiplier = 1.0;
  block.residual = model::BlockSpec::Residual::kSequential;
  block.mlp.reset();
  EXPECT_EQ(added(), std::pair(true, false)) << "a mixture's";
}

TEST(OutputDrift, IsTheDifferenceOfMeanOutputs) {
  const Case given = make_case(2), other = make_case(3);
  const std::vector<double> then{1, -2, 3, 0.5, 0, 4, 1}, now{0.5, -1, 3, 1, 2, 0, -1};
  const std::vector<double> drift = output_drift(ViewSource(given.w.view()), then, ViewSource(other.w.view()), now);
  ASSERT_EQ(drift.size(), kOut);
  for (std::size_t i = 0; i < kOut; ++i) {
    double before = 0.0, after = 0.0;
    for (std::size_t j = 0; j < kIn; ++j) {
      before += then[j] * static_cast<double>(given.w(i, j));
      after += now[j] * static_cast<double>(other.w(i, j));
    }
    EXPECT_TRUE(test::near(drift[i], before - after, {.abs = 1e-12})) << i;  // a dozen roundings of numbers near 10
  }
}

TEST(DriftCorrected, IsTheWeightItselfWhereNothingDrifted) {
  const Case given = make_case(9);
  const LayerDrift none{
      .inputs = Matrix<float>(kIn, kIn), .stream = Matrix<float>(kOut, kIn), .stream_mean = std::vector<double>(kOut)};
  const Matrix<float> target = drift_corrected(ViewSource(given.w.view()), none, given.hessian.view(), {}, 1.0);
  for (std::size_t i = 0; i < target.size(); ++i) EXPECT_EQ(target.data()[i], given.w.data()[i]);
}

}  // namespace
}  // namespace nibble::quant

// Weights that make up for drifted inputs, beside normal equations solved in double.
#include "quant/job/network/layer_drift.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/matrix/view_source.h"
#include "core/random.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kIn = 7, kOut = 5, kWindow = 4, kWindows = 15, kTokens = kWindows * kWindow;
constexpr double kMultiplier = 0.5;

// What a layer is given in two networks, and a weight.
struct Case {
  Matrix<float> w{kOut, kIn};
  calib::LayerInput original{Matrix<float>(kTokens, kIn), Matrix<float>(kTokens, kOut)},
      quantized{Matrix<float>(kTokens, kIn), Matrix<float>(kTokens, kOut)};
};

// Inputs whose sizes differ, which shrink, mix and get noise on their way through the quantized network, and so does
// what outputs are added to. Neither has a mean of 0.
Case make_case(std::uint64_t seed) {
  Random random(seed);
  Case made;
  for (float& value : made.w.values()) value = static_cast<float>(random.normal());
  for (std::size_t t = 0; t < kTokens; ++t) {
    double x[kIn];
    for (std::size_t j = 0; j < kIn; ++j) x[j] = 1.0 + random.normal() * (1.0 + static_cast<double>(j));
    for (std::size_t j = 0; j < kIn; ++j) {
      made.original.x(t, j) = static_cast<float>(x[j]);
      made.quantized.x(t, j) = static_cast<float>(0.8 * x[j] + 0.1 * x[(j + 1) % kIn] + 0.3 * random.normal());
    }
    for (std::size_t i = 0; i < kOut; ++i) {
      made.original.stream(t, i) = static_cast<float>(random.normal());
      made.quantized.stream(t, i) =
          made.original.stream(t, i) + static_cast<float>(0.2 - 0.5 * x[i] + 0.3 * random.normal());
    }
  }
  return made;
}

calib::LayerInput part(const calib::LayerInput& all, std::size_t begin, std::size_t end) {
  calib::LayerInput some{Matrix<float>(end - begin, all.x.cols()), Matrix<float>(end - begin, all.stream.cols())};
  std::copy(all.x.row(begin).begin(), all.x.row(begin).begin() + static_cast<std::ptrdiff_t>(some.x.size()),
            some.x.data());
  std::copy(all.stream.row(begin).begin(),
            all.stream.row(begin).begin() + static_cast<std::ptrdiff_t>(some.stream.size()), some.stream.data());
  return some;
}

// With their squares, where these are asked for.
LayerDrift measured(const Case& given, bool stream, std::size_t windows_per_batch = 4,
                    Matrix<float>* squares = nullptr) {
  DriftSums sums(kWindow, kMultiplier, squares != nullptr);
  for (std::size_t begin = 0; begin < kTokens; begin += windows_per_batch * kWindow) {
    const std::size_t end = std::min(kTokens, begin + windows_per_batch * kWindow);
    calib::LayerInput original = part(given.original, begin, end), quantized = part(given.quantized, begin, end);
    if (!stream) original.stream = quantized.stream = {};
    sums.add(original, quantized);
  }
  if (squares != nullptr) *squares = sums.take_squares();
  return sums.take();
}

// In double, of the tokens for which `chosen(window)`: mean products (of values less those means) of what `left` and
// `right` say of a token.
template <class Left, class Right, class Chosen>
double mean_product(const Left& left, double left_mean, const Right& right, double right_mean, const Chosen& chosen) {
  double sum = 0.0, tokens = 0.0;
  for (std::size_t t = 0; t < kTokens; ++t)
    if (chosen(t / kWindow)) sum += (left(t) - left_mean) * (right(t) - right_mean), tokens += 1.0;
  return sum / tokens;
}

template <class Of>
double mean_of(const Of& of) {
  return mean_product(
      of, 0.0, [](std::size_t) { return 1.0; }, 0.0, [](std::size_t) { return true; });
}

auto column(const Matrix<float>& values, std::size_t j) {
  return [&values, j](std::size_t t) { return static_cast<double>(values(t, j)); };
}

auto column_off(const Matrix<float>& a, const Matrix<float>& b, std::size_t j, double multiplier = 1.0) {
  return [&a, &b, j, multiplier](std::size_t t) {
    return (static_cast<double>(a(t, j)) - static_cast<double>(b(t, j))) / multiplier;
  };
}

// Sums of some 30 products of up to 8 by 30 in float: 30 · 240 · 2^-24 / 2.
constexpr test::Bound kOfSums{.abs = 2e-4};

// As they are, and about the means of all tokens.
TEST(DriftSums, AreOfEveryOtherWindow) {
  for (const std::size_t windows_per_batch : {std::size_t{1}, std::size_t{4}, std::size_t{15}})
    for (const bool centred : {false, true}) {
      const Case given = make_case(4);
      Matrix<float> squares;
      LayerDrift drift = measured(given, true, windows_per_batch, &squares);
      if (centred) drift.centre();
      const auto mean = [&](const auto& of) { return centred ? mean_of(of) : 0.0; };
      EXPECT_EQ(drift.tokens(), static_cast<double>(kTokens));
      for (std::size_t i = 0; i < kIn; ++i)
        for (std::size_t j = 0; j < kIn; ++j) {
          const auto a = column_off(given.original.x, given.quantized.x, i),
                     b = column_off(given.original.x, given.quantized.x, j);
          const double expected = mean_product(a, 0.0, b, 0.0, [](std::size_t) { return true; });
          EXPECT_TRUE(test::near(static_cast<double>(squares(i, j)), expected, kOfSums))
              << "squares " << i << ", " << j;
        }
      for (std::size_t half = 0; half < 2; ++half) {
        const auto chosen = [&](std::size_t window) { return window % 2 == half; };
        const LayerDrift::Half& made = drift.halves[half];
        EXPECT_EQ(made.tokens, static_cast<double>((half == 0 ? 8 : 7) * kWindow));
        for (std::size_t j = 0; j < kIn; ++j) {
          const auto now = column(given.quantized.x, j);
          const double now_mean = mean(now);
          for (std::size_t i = 0; i < kIn; ++i) {
            const auto off = column_off(given.original.x, given.quantized.x, i);
            EXPECT_TRUE(test::near(static_cast<double>(made.inputs(i, j)),
                                   mean_product(off, mean(off), now, now_mean, chosen), kOfSums))
                << half << ": " << i << ", " << j << (centred ? " centred" : "");
          }
          for (std::size_t i = 0; i < kOut; ++i) {
            const auto off = column_off(given.original.stream, given.quantized.stream, i, kMultiplier);
            EXPECT_TRUE(test::near(static_cast<double>(made.stream(i, j)),
                                   mean_product(off, mean(off), now, now_mean, chosen), kOfSums))
                << half << ": stream " << i << ", " << j << (centred ? " centred" : "");
          }
        }
      }
    }
}

TEST(DriftSums, TakeTheBytesThatPlansCount) {
  for (const bool stream : {false, true})
    for (const bool squares : {false, true}) {
      Matrix<float> made;
      const LayerDrift drift = measured(make_case(4), stream, 4, squares ? &made : nullptr);
      std::uint64_t bytes = sizeof(float) * made.size();
      for (const LayerDrift::Half& half : drift.halves)
        bytes += sizeof(float) * (half.inputs.size() + half.stream.size());
      EXPECT_EQ(DriftSums::bytes(kIn, stream ? kOut : 0, squares), bytes);
    }
}

TEST(DriftSums, HaveTheMeansOfBothNetworks) {
  const Case given = make_case(5);
  const LayerDrift drift = measured(given, true);
  const std::vector<double> then = drift.float_input_mean(), now = drift.mean_of(&LayerDrift::Half::input_mean),
                            stream_off = drift.mean_of(&LayerDrift::Half::stream_off);
  ASSERT_EQ(then.size(), kIn);
  ASSERT_EQ(stream_off.size(), kOut);
  // Differences of floats up to 32, rounded once: 2^-20.
  for (std::size_t j = 0; j < kIn; ++j) {
    EXPECT_TRUE(test::near(then[j], mean_of(column(given.original.x, j)), {.abs = 1e-6})) << j;
    EXPECT_TRUE(test::near(now[j], mean_of(column(given.quantized.x, j)), {.abs = 1e-12})) << j;
  }
  for (std::size_t i = 0; i < kOut; ++i)
    EXPECT_TRUE(test::near(stream_off[i],
                           mean_of(column_off(given.original.stream, given.quantized.stream, i, kMultiplier)),
                           {.abs = 1e-6}))
        << i;
  EXPECT_TRUE(measured(given, false).mean_of(&LayerDrift::Half::stream_off).empty());
}

TEST(DriftSums, RefuseOneWindowAndParts) {
  const Case given = make_case(6);
  DriftSums one(kWindow, kMultiplier);
  one.add(part(given.original, 0, kWindow), part(given.quantized, 0, kWindow));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { (void)one.take(); }, "two windows or more, not 1"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { one.add(part(given.original, 0, 3), part(given.quantized, 0, 3)); }, "windows of 4"));
}

TEST(LayerDrift, OfDividedInputsIsThatOfTheirProducts) {
  const Case given = make_case(7);
  const LayerDrift before = measured(given, true);
  LayerDrift after = before;
  const std::vector<float> s{0.5F, 2, 1, 4, 0.25F, 1, 8};  // powers of two: exact
  after.divide_inputs(s);
  for (std::size_t half = 0; half < 2; ++half)
    for (std::size_t j = 0; j < kIn; ++j) {
      for (std::size_t i = 0; i < kIn; ++i)
        EXPECT_EQ(after.halves[half].inputs(i, j), before.halves[half].inputs(i, j) / s[i] / s[j]);
      for (std::size_t i = 0; i < kOut; ++i)
        EXPECT_EQ(after.halves[half].stream(i, j), before.halves[half].stream(i, j) / s[j]);
    }
}

struct Square {
  double a[kIn][kIn];
};

// x of x A = b, by elimination with pivots; A symmetric.
std::vector<double> solved(Square a, std::vector<double> b) {
  for (std::size_t k = 0; k < kIn; ++k) {
    std::size_t pivot = k;
    for (std::size_t i = k; i < kIn; ++i)
      if (std::abs(a.a[i][k]) > std::abs(a.a[pivot][k])) pivot = i;
    std::swap(a.a[k], a.a[pivot]);
    std::swap(b[k], b[pivot]);
    for (std::size_t i = 0; i < kIn; ++i) {
      if (i == k) continue;
      const double f = a.a[i][k] / a.a[k][k];
      for (std::size_t j = k; j < kIn; ++j) a.a[i][j] -= f * a.a[k][j];
      b[i] -= f * b[k];
    }
  }
  for (std::size_t k = 0; k < kIn; ++k) b[k] /= a.a[k][k];
  return b;
}

Matrix<float> hessian_of(const Case& given) {
  Matrix<float> h(kIn, kIn);
  for (std::size_t i = 0; i < kIn; ++i)
    for (std::size_t j = 0; j < kIn; ++j)
      h(i, j) = static_cast<float>(mean_product(column(given.quantized.x, i), 0.0, column(given.quantized.x, j), 0.0,
                                                [](std::size_t) { return true; }));
  return h;
}

// w D + S of one half's tokens (or of all, half = 2) for row i, from the tokens.
std::vector<double> missed(const Case& given, bool stream, std::size_t i, std::size_t half) {
  std::vector<double> m(kIn);
  const auto output_off = [&](std::size_t t) {
    double sum = 0.0;
    for (std::size_t k = 0; k < kIn; ++k)
      sum += static_cast<double>(given.w(i, k)) * column_off(given.original.x, given.quantized.x, k)(t);
    if (stream) sum += column_off(given.original.stream, given.quantized.stream, i, kMultiplier)(t);
    return sum;
  };
  for (std::size_t j = 0; j < kIn; ++j)
    m[j] = mean_product(output_off, 0.0, column(given.quantized.x, j), 0.0,
                        [&](std::size_t window) { return half == 2 || window % 2 == half; });
  return m;
}

TEST(DriftCorrected, SolvesTheNormalEquationsLessTheNoiseThatHalvesTell) {
  double least = 1.0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed)
    for (const auto unit : {DampingUnit::kOwn, DampingUnit::kMean})
      for (const bool act_order : {true, false})
        for (const auto& [share, stream] : {std::pair(0.5, false), {1.0, false}, {1.0, true}, {0.5, true}}) {
          const Case given = make_case(seed);
          const FactorOptions options{.damping = 0.01, .unit = unit, .act_order = act_order};
          const Matrix<float> hessian = hessian_of(given);
          const Matrix<float> target =
              drift_corrected(ViewSource(given.w.view()), measured(given, stream), hessian.view(), options, share);
          Square damped;
          double mean = 0.0;
          for (std::size_t j = 0; j < kIn; ++j) mean += static_cast<double>(hessian(j, j)) / kIn;
          for (std::size_t i = 0; i < kIn; ++i)
            for (std::size_t j = 0; j < kIn; ++j) {
              damped.a[i][j] = static_cast<double>(hessian(i, j));
              if (i == j) damped.a[i][j] += options.damping * (unit == DampingUnit::kMean ? mean : damped.a[i][j]);
            }
          for (std::size_t i = 0; i < kOut; ++i) {
            const std::vector<double> all = missed(given, stream, i, 2), delta = solved(damped, all);
            std::vector<double> apart = missed(given, stream, i, 0);
            const std::vector<double> other = missed(given, stream, i, 1);
            for (std::size_t j = 0; j < kIn; ++j) apart[j] -= other[j];
            const std::vector<double> apart_solved = solved(damped, apart);
            double size = 0.0, noise = 0.0;
            for (std::size_t j = 0; j < kIn; ++j) {
              size += all[j] * delta[j];
              noise += apart[j] * apart_solved[j] * 8.0 * 7.0 / (15.0 * 15.0);
            }
            const double kept = noise < size ? 1.0 - noise / size : 0.0;
            least = std::min(least, kept);
            for (std::size_t j = 0; j < kIn; ++j)
              // Floats of sums and factor, 6e-8, times the condition of H + Λ, at most some 200 here, of weights up to
              // 3, and 10 for what the shrinking adds.
              EXPECT_TRUE(test::near(static_cast<double>(target(i, j)),
                                     static_cast<double>(given.w(i, j)) + share * kept * delta[j], {.abs = 4e-4}))
                  << "seed " << seed << ", row " << i << ", column " << j << ", kept " << kept;
          }
        }
  EXPECT_LT(least, 0.9) << "no case shrinks";
}

// What comes out of inputs that foretell nothing of the drift: by chance alone, from 15 windows of 4 tokens for 7
// inputs.
TEST(DriftCorrected, LearnsLittleOfNoise) {
  double learned = 0.0, chance = 0.0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Case given = make_case(seed);
    Random random(1000 + seed);
    for (std::size_t i = 0; i < given.original.x.size(); ++i)
      given.original.x.data()[i] = given.quantized.x.data()[i] + static_cast<float>(random.normal());
    const Matrix<float> hessian = hessian_of(given);
    const Matrix<float> target =
        drift_corrected(ViewSource(given.w.view()), measured(given, false), hessian.view(), {.damping = 0.0}, 1.0);
    Square h;
    for (std::size_t i = 0; i < kIn; ++i)
      for (std::size_t j = 0; j < kIn; ++j) h.a[i][j] = static_cast<double>(hessian(i, j));
    for (std::size_t i = 0; i < kOut; ++i) {
      const std::vector<double> m = missed(given, false, i, 2), delta = solved(h, m);
      for (std::size_t j = 0; j < kIn; ++j) {
        chance += delta[j] * m[j];  // δ H δᵀ
        for (std::size_t k = 0; k < kIn; ++k)
          learned += (static_cast<double>(target(i, j)) - static_cast<double>(given.w(i, j))) * h.a[j][k] *
                     (static_cast<double>(target(i, k)) - static_cast<double>(given.w(i, k)));
      }
    }
  }
  // Size and noise are sums of 7 squares of the same mean: of (1 - noise / size)² size, where size is more than noise,
  // a sixth of it is left in the mean of these 200 rows. With half of the noise it would be two fifths.
  EXPECT_LT(learned, 0.25 * chance);
  EXPECT_GT(learned, 0.05 * chance) << "nothing is ever learned";
}

TEST(SignalShare, IsWhatIsNotNoise) {
  EXPECT_EQ(signal_share(4.0, 0.0), 1.0);
  EXPECT_EQ(signal_share(4.0, 1.0), 0.75);
  EXPECT_EQ(signal_share(4.0, 4.0), 0.0);
  EXPECT_EQ(signal_share(4.0, 5.0), 0.0);
  EXPECT_EQ(signal_share(0.0, 0.0), 0.0);
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
  Case given = make_case(9);
  given.original = given.quantized;
  const Matrix<float> target =
      drift_corrected(ViewSource(given.w.view()), measured(given, true), hessian_of(given).view(), {}, 1.0);
  for (std::size_t i = 0; i < target.size(); ++i) EXPECT_EQ(target.data()[i], given.w.data()[i]);
}

}  // namespace
}  // namespace nibble::quant

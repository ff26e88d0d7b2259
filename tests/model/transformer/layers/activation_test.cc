#include "model/transformer/layers/activation.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/random.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

// The float kernels of the instruction set in force against formulas in double; the slopes against the complex step.
// ulp = 2^-23 relative to the exact value.

namespace nibble::test {
namespace {

using Complex = std::complex<double>;
using model::Activation;

constexpr double kUlp = 0x1p-23;
constexpr std::size_t kLengths[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100};
constexpr float kGuard = 12345.0f;  // stands behind every row and must stay
constexpr Activation kActivations[] = {Activation::kSilu, Activation::kGeluTanh, Activation::kGelu, Activation::kRelu,
                                       Activation::kRelu2};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_row(std::size_t n, double scale, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> row(n);
  for (float& value : row) value = static_cast<float>(scale * random.normal());
  return row;
}

// Every 1009th float of either sign from 2^-30 to 32, and 0: some 600 000, at all exponents alike.
std::vector<float> floats() {
  std::vector<float> values{0.0f, -0.0f};
  const auto low = std::bit_cast<std::uint32_t>(0x1p-30f), high = std::bit_cast<std::uint32_t>(32.0f);
  for (std::uint32_t bits = low; bits < high; bits += 1009) {
    values.push_back(std::bit_cast<float>(bits));
    values.push_back(-values.back());
  }
  return values;
}

// Without the cancellation of 1 + tanh and 1 + erf in the negative tail.
double exact(Activation f, double x) {
  switch (f) {
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kGeluTanh:
      return x / (1.0 + std::exp(-2.0 * std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kGelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kRelu2:
      return std::max(x, 0.0) * std::max(x, 0.0);
    case Activation::kClampedSwiglu:
      break;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

double ulps(Activation f, double x) {
  switch (f) {
    case Activation::kSilu:
      return 6.0;
    case Activation::kGeluTanh:
      return 6.0 + 4.0 * std::abs(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x));
    case Activation::kGelu:
      return 5.0;
    case Activation::kRelu2:
      return 1.0;
    default:
      return 0.0;
  }
}

TEST(Activations, ValuesAreWithinTheBoundsOfTheHeader) {
  const auto x = floats();
  std::vector<float> y(x.size());
  for (const Activation f : kActivations) {
    model::activation_row(f, x.data(), y.data(), x.size());
    double worst = 0.0, at = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double v = static_cast<double>(x[i]), value = exact(f, v);
      // Where exp is below 2^-126 it may be 0; |x| < 32 multiplies it.
      const double error = std::max(0.0, std::abs(static_cast<double>(y[i]) - value) - 32.0 * 0x1p-126);
      const double share = error == 0.0 ? 0.0 : error / std::abs(value) / kUlp - ulps(f, v);
      if (!(share <= worst)) worst = share, at = v;
    }
    EXPECT_TRUE(near(worst, 0.0, {})) << model::activation_name(f) << " is " << worst << " ulp beyond its bound at "
                                      << at;
  }
}

TEST(Activations, FarBelowZeroNothingIsLeft) {
  // exp(-x) is beyond floats from x = -88.73 on, and below 2^-126 the other way round: |x| multiplies that.
  const std::vector<float> x{-88.8f, -90.0f, -1000.0f, -1e30f, -3e38f};
  for (const Activation f : {Activation::kSilu, Activation::kGeluTanh, Activation::kGelu}) {
    std::vector<float> y(x.size());
    model::activation_row(f, x.data(), y.data(), x.size());
    EXPECT_TRUE(all_near(std::span(y).first(2), std::vector<float>(2, 0.0f), {.abs = 90.0 * 0x1p-126}))
        << model::activation_name(f);
    EXPECT_TRUE(all_near(std::span(y).subspan(2), std::vector<float>(3, 0.0f), {})) << model::activation_name(f);
  }
}

TEST(Activations, GeluIsTheOneWithErfAndGeluTanhTheOneWithTanh) {
  const float x = 2.0f;
  float y = 0.0f;
  model::activation_row(Activation::kGelu, &x, &y, 1);
  EXPECT_TRUE(near(static_cast<double>(y), 1.0 + std::erf(std::sqrt(2.0)), {.rel = 1e-6}));
  model::activation_row(Activation::kGeluTanh, &x, &y, 1);
  EXPECT_TRUE(
      near(static_cast<double>(y), 1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (2.0 + 0.044715 * 8.0)), {.rel = 1e-6}));
}

TEST(Activations, NormalDistributionOfComplexNumbers) {
  for (double x = -8.9; x < 9.0; x += 0.173) {
    const Complex value = model::generic::normal_cdf(Complex(x, 1e-30));
    EXPECT_TRUE(near(value.real(), 0.5 * std::erfc(-x / std::sqrt(2.0)), {.abs = 1e-15}));
    EXPECT_TRUE(near(value.imag() / 1e-30, std::exp(-0.5 * x * x) / std::sqrt(2.0 * M_PI), {.abs = 1e-14}));
  }
}

// The value and the gradients of one activation, plain (up without meaning) or gated, in any scalar.
struct Kind {
  Activation f;
  bool gated;
  double limit = 0.0, alpha = 0.0;
};

std::vector<Kind> kinds() {
  std::vector<Kind> list{{Activation::kClampedSwiglu, true, 1.25, 1.702}};
  for (const Activation f : kActivations) list.push_back({f, false}), list.push_back({f, true});
  return list;
}

template <class T>
std::vector<T> forward(const Kind& kind, const std::vector<T>& gate, const std::vector<T>& up) {
  std::vector<T> inner(gate), y(gate.size() + 1, T(kGuard));
  if (kind.gated) inner.insert(inner.end(), up.begin(), up.end());
  model::activate<T>({kind.f, kind.gated, kind.limit, kind.alpha}, MatrixView<const T>(inner.data(), 1, inner.size()),
                     MatrixView<T>(y.data(), 1, gate.size()));
  return y;
}

// dgate, then dup if gated, then the guard.
template <class T>
std::vector<T> backward(const Kind& kind, const std::vector<T>& gate, const std::vector<T>& up,
                        const std::vector<T>& dy) {
  std::vector<T> inner(gate);
  if (kind.gated) inner.insert(inner.end(), up.begin(), up.end());
  inner.push_back(T(kGuard));
  model::activation_backward<T>({kind.f, kind.gated, kind.limit, kind.alpha},
                                MatrixView<const T>(dy.data(), 1, dy.size()),
                                MatrixView<T>(inner.data(), 1, inner.size() - 1));
  return inner;
}

TEST(Activations, SlopesInDoubleAreThoseOfTheComplexStep) {
  constexpr std::size_t n = 200;
  const auto a = random_row(n, 2.0, 1), b = random_row(n, 1.5, 2), c = random_row(n, 1.0, 3);
  const std::vector<double> gate(a.begin(), a.end()), up(b.begin(), b.end()), dy(c.begin(), c.end());
  for (const Kind& kind : kinds()) {
    const auto actual = backward(kind, gate, up, dy);
    std::vector<double> expected;
    for (const bool of_up : {false, true}) {
      if (of_up && !kind.gated) continue;
      std::vector<Complex> z(gate.begin(), gate.end()), u(up.begin(), up.end());
      for (Complex& value : of_up ? u : z) value += Complex(0.0, 1e-30);
      const auto y = forward(kind, z, u);
      for (std::size_t i = 0; i < n; ++i) expected.push_back(dy[i] * y[i].imag() / 1e-30);
    }
    // A few roundings of terms up to 20; the complex normal distribution has an absolute error of 1e-16 more.
    EXPECT_TRUE(all_near(std::span(actual).first(expected.size()), expected, {.abs = 3e-14, .rel = 1e-14}))
        << model::activation_name(kind.f) << kind.gated;
  }
}

TEST(Activations, FloatsFollowDoublesAtEveryLength) {
  for (const std::size_t n : kLengths) {
    const auto gate = random_row(n, 2.0, n + 1), up = random_row(n, 1.5, n + 2), dy = random_row(n, 1.0, n + 3);
    const std::vector<double> wide_gate(gate.begin(), gate.end()), wide_up(up.begin(), up.end()),
        wide_dy(dy.begin(), dy.end());
    for (const Kind& kind : kinds()) {
      const auto y = forward(kind, gate, up);
      const auto gradient = backward(kind, gate, up, dy);
      const auto wide = forward(kind, wide_gate, wide_up);
      const auto wide_gradient = backward(kind, wide_gate, wide_up, wide_dy);
      // Some ten roundings of factors up to 8 whose sums may cancel.
      const Bound bound{.abs = 1e-5, .rel = 3e-6};
      EXPECT_TRUE(all_near(std::vector<double>(y.begin(), y.end()), wide, bound)) << n;
      EXPECT_TRUE(all_near(std::vector<double>(gradient.begin(), gradient.end()), wide_gradient, bound))
          << model::activation_name(kind.f) << kind.gated << n;
      EXPECT_TRUE(near(static_cast<double>(y.back()), static_cast<double>(kGuard), {}));
      EXPECT_TRUE(near(static_cast<double>(gradient.back()), static_cast<double>(kGuard), {}));
    }
  }
}

TEST(Activations, ClampedSwigluIsClampedAndHasNoSlopeThere) {
  const Kind kind{Activation::kClampedSwiglu, true, 7.0, 1.702};
  const std::vector<float> gate{9.0f, 7.0f, -9.0f, 1.0f, 1.0f, 1.0f}, up{1.0f, 1.0f, 1.0f, 8.0f, -8.0f, -7.0f};
  const auto y = forward(kind, gate, up);
  const auto sigmoid = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
  const std::vector<double> expected{7.0 * sigmoid(1.702 * 7.0) * 2.0,
                                     7.0 * sigmoid(1.702 * 7.0) * 2.0,
                                     -9.0 * sigmoid(1.702 * -9.0) * 2.0,  // the gate has no lower clamp
                                     sigmoid(1.702) * 8.0,
                                     sigmoid(1.702) * -6.0,
                                     sigmoid(1.702) * -6.0};
  EXPECT_TRUE(all_near(std::vector<double>(y.begin(), y.end() - 1), expected, {.rel = 1e-5}));
  const auto gradient = backward(kind, gate, up, std::vector<float>(6, 1.0f));
  const auto zero = [&](std::size_t i) { return gradient[i] == 0.0f; };
  EXPECT_TRUE(zero(0) && !zero(1) && !zero(2) && !zero(3) && !zero(4) && !zero(5));   // of the gate
  EXPECT_TRUE(!zero(6) && !zero(7) && !zero(8) && zero(9) && zero(10) && !zero(11));  // of up
}

TEST(Activations, NanStaysNan) {
  std::vector<float> gate = random_row(40, 1.0, 1);
  const std::vector<float> up = random_row(40, 1.0, 2), dy = random_row(40, 1.0, 3);
  gate[20] = kNan;
  for (const Kind& kind : kinds()) {
    const auto y = forward(kind, gate, up);
    EXPECT_TRUE(std::isnan(y[20])) << model::activation_name(kind.f);
    EXPECT_FALSE(std::isnan(y[19]));
  }
}

TEST(Activations, TheOutputMayBeTheGate) {
  const auto gate = random_row(50, 1.0, 1), up = random_row(50, 1.0, 2);
  for (const Kind& kind : kinds()) {
    const auto apart = forward(kind, gate, up);
    std::vector<float> inner(gate);
    if (kind.gated) inner.insert(inner.end(), up.begin(), up.end());
    model::activate<float>({kind.f, kind.gated, kind.limit, kind.alpha},
                           MatrixView<const float>(inner.data(), 1, inner.size()),
                           MatrixView<float>(inner.data(), 1, 50));
    EXPECT_TRUE(same_bits(std::span<const float>(inner).first(50), std::span<const float>(apart).first(50)));
  }
}

TEST(Activations, ClampedSwigluIsNoFunctionOfOneValue) {
  const float x = 1.0f;
  float y = 0.0f;
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { model::activation_row(Activation::kClampedSwiglu, &x, &y, 1); },
                                           "clamped_swiglu"));
}

}  // namespace
}  // namespace nibble::test

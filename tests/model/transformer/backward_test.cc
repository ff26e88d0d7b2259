#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <map>

#include "core/machine/thread_pool.h"
#include "core/random.h"
#include "model/transformer/build.h"
#include "tests/model/transformer/gradients_of.h"
#include "tests/model/transformer/toy_weights.h"
#include "tests/support/compare.h"

// Complex step (Squire and Trapp 1998): for an analytic L, dL/dw = Im L(w + ih) / h without any subtraction, so with
// h = 1e-30 it is exact to rounding. L is computed by the very same templates, in std::complex<double>.

namespace nibble::test {
namespace {

using Complex = std::complex<double>;
using model::Architecture;

constexpr double kStep = 1e-30;

// Sequences of 133, 1 and 7 tokens: more than a tile of attention, a single token, and rows without a target.
template <class T>
LossInput<T> toy_input(const Architecture& architecture) {
  LossInput<T> input{toy_tokens(architecture, 141, 21), {0, 133, 134, 141}, {}, {}};
  Random random(22);
  for (std::size_t r = 0; r < 141; ++r) {
    input.targets.push_back(r % 5 == 4 ? -1 : static_cast<std::int64_t>(random.below(architecture.vocabulary)));
    input.weights.push_back(static_cast<T>(0.25 + random.uniform()));
  }
  return input;
}

class Backward : public testing::TestWithParam<std::string> {
 protected:
  const Architecture architecture = toy_architecture(GetParam());
  const ToyWeights weights{architecture, 5};
  const LossInput<double> input = toy_input<double>(architecture);
  const LossInput<Complex> complex_input = toy_input<Complex>(architecture);

  using Directions = std::map<std::string, Matrix<double>>;

  // dL / dh where each module's weight is h times its direction off.
  double slope_along(const Directions& directions) const {
    const auto network = model::build_transformer<Complex>(architecture, weights, [&](const model::Parameter& layer) {
      auto linear = model::make_dense_linear<Complex>(layer, weights);
      if (const auto found = directions.find(layer.module); found != directions.end())
        for (std::size_t i = 0; i < found->second.size(); ++i)
          linear->weight().data()[i] += Complex(0.0, kStep * found->second.data()[i]);
      return linear;
    });
    return loss_of(*network, complex_input, embedded(*network, complex_input.batch())).imag() / kStep;
  }
};

TEST_P(Backward, WeightGradientsAreThoseOfTheComplexStep) {
  const auto network = model::make_dense_transformer<double>(architecture, weights);
  const auto gradients = weight_gradients(*network, input);
  Random random(23);
  Directions directions;
  std::map<std::string, double> slopes;
  double slope = 0.0, largest = 0.0;
  for (const auto& [module, gradient] : gradients) {
    // Random directions, so that every weight has its say. A tied head's weight is perturbed in the head only,
    // not in the embedding: hooks report the linear layer.
    Matrix<double> direction(gradient.rows(), gradient.cols());
    double of_module = 0.0, largest_of_module = 0.0;
    for (std::size_t i = 0; i < direction.size(); ++i) {
      direction.data()[i] = random.normal();
      const double term = gradient.data()[i] * direction.data()[i];
      of_module += term;
      largest_of_module = std::max(largest_of_module, std::abs(term));
    }
    EXPECT_GT(largest_of_module, 0.0) << module;
    slopes[module] = of_module;
    slope += of_module;
    largest = std::max(largest, largest_of_module);
    directions.emplace(module, std::move(direction));
  }
  EXPECT_EQ(gradients.size(), model::linear_layers(architecture).size() + 1);

  // All modules in one step, as a derivative is linear; which of them is wrong takes a step for each.
  const auto agrees = near(slope, slope_along(directions), {.abs = 1e-10 * largest});
  EXPECT_TRUE(agrees);
  if (!agrees) {
    for (const auto& [module, direction] : directions)
      EXPECT_TRUE(near(slopes.at(module), slope_along({{module, direction}}), {.abs = 1e-10 * largest})) << module;
  }
}

TEST_P(Backward, InputGradientsAreThoseOfTheComplexStep) {
  const auto network = model::make_dense_transformer<double>(architecture, weights);
  const Matrix<double> dx = run_backward(*network, input, {});
  const auto complex_network = model::make_dense_transformer<Complex>(architecture, weights);
  Random random(24);
  Matrix<double> direction(dx.rows(), dx.cols());
  double largest = 0.0;
  for (std::size_t i = 0; i < direction.size(); ++i) {
    direction.data()[i] = random.normal();
    largest = std::max(largest, std::abs(dx.data()[i] * direction.data()[i]));
  }
  const auto slope_along_rows = [&](std::size_t begin, std::size_t end) {
    auto x = embedded(*complex_network, complex_input.batch());
    for (std::size_t row = begin; row < end; ++row)
      for (std::size_t col = 0; col < x.cols(); ++col) x(row, col) += Complex(0.0, kStep * direction(row, col));
    return loss_of(*complex_network, complex_input, x).imag() / kStep;
  };
  const auto slope_of_rows = [&](std::size_t begin, std::size_t end) {
    double slope = 0.0;
    for (std::size_t row = begin; row < end; ++row)
      for (std::size_t col = 0; col < dx.cols(); ++col) slope += dx(row, col) * direction(row, col);
    return slope;
  };
  const auto agree = [&](std::size_t begin, std::size_t end) {
    return near(slope_of_rows(begin, end), slope_along_rows(begin, end), {.abs = 1e-10 * largest});
  };
  EXPECT_GT(largest, 0.0);
  // All inputs in one step; which of them is wrong takes a step for each row.
  const auto agrees = agree(0, dx.rows());
  EXPECT_TRUE(agrees);
  if (!agrees) {
    for (std::size_t row = 0; row < dx.rows(); ++row) EXPECT_TRUE(agree(row, row + 1)) << "row " << row;
  }
}

// The same sums in float: a few hundred roundings of 6e-8.
TEST_P(Backward, FloatAgreesWithDouble) {
  const auto in_double = weight_gradients(*model::make_dense_transformer<double>(architecture, weights), input);
  const auto in_float =
      weight_gradients<float>(*model::make_model(architecture, weights), toy_input<float>(architecture));
  ASSERT_EQ(in_float.size(), in_double.size());
  for (const auto& [module, gradient] : in_float) {
    const std::vector<double> widened(gradient.values().begin(), gradient.values().end());
    EXPECT_TRUE(relative_error_within(widened, in_double.at(module).values(), 1e-5)) << module;
  }
}

TEST_P(Backward, TheNumberOfThreadsDoesNotChangeABit) {
  const auto network = model::make_model(architecture, weights);
  const auto float_input = toy_input<float>(architecture);
  set_thread_count(1);
  const auto alone = run_backward(*network, float_input, {});
  for (const std::size_t threads : {2u, 3u}) {
    set_thread_count(threads);
    EXPECT_TRUE(same_bits(run_backward(*network, float_input, {}).values(), alone.values()));
  }
  set_thread_count(0);
}

TEST_P(Backward, HooksSeeInputAndOutputGradientOfEveryLinearLayer) {
  const auto network = model::make_model(architecture, weights);
  std::map<std::string, int> seen;
  model::Hooks<float> hooks;
  hooks.on_linear_input = [](const std::string& module, MatrixView<const float>, const model::HookRows&) {
    ADD_FAILURE() << module << ": recomputation reports no inputs";
  };
  hooks.on_linear_gradient = [&](const std::string& module, MatrixView<const float> x, MatrixView<const float> dy,
                                 const model::HookRows&) {
    ++seen[module];
    EXPECT_EQ(x.rows(), dy.rows());
  };
  run_backward(*network, toy_input<float>(architecture), hooks);
  for (const model::Parameter* layer : model::linear_layers(architecture))
    EXPECT_EQ(seen[layer->module], 1) << layer->module;
  EXPECT_EQ(seen["lm_head"], 1);
}

INSTANTIATE_TEST_SUITE_P(Families, Backward, testing::Values("gpt2", "llama"),
                         [](const auto& instance) { return instance.param; });
INSTANTIATE_TEST_SUITE_P(Knobs, Backward, testing::ValuesIn(knobs()),
                         [](const auto& instance) { return test_name(instance.param); });

}  // namespace
}  // namespace nibble::test

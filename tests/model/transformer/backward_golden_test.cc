#include <gtest/gtest.h>

#include <numeric>

#include "tests/model/transformer/golden_files.h"
#include "tests/model/transformer/gradients_of.h"
#include "tests/support/compare.h"

// Gradients and Fisher matrices of an independent float32 implementation (automatic differentiation), eight windows.

namespace nibble::test {
namespace {

class BackwardGolden : public testing::TestWithParam<GoldenModel> {};

// Squares of float gradients of a stored matrix, summed over windows in double. Several linear layers may have rows in
// it.
struct Fisher {
  Matrix<float> first_window;
  Matrix<double> sum;

  explicit Fisher(const model::Stored& stored)
      : first_window(stored.rows, stored.cols), sum(stored.rows, stored.cols) {}
  void add(const model::Stored& stored, const Matrix<float>& gradient, bool first) {
    for (std::size_t i = 0; i < gradient.rows(); ++i) {
      const std::size_t r = stored.part.row(i);
      for (std::size_t c = 0; c < gradient.cols(); ++c) {
        const double value = static_cast<double>(gradient(i, c));
        sum(r, c) += value * value;
        if (first) first_window(r, c) = gradient(i, c);
      }
    }
  }
  std::vector<float> row_sums() const {
    std::vector<float> sums;
    for (std::size_t r = 0; r < sum.rows(); ++r)
      sums.push_back(static_cast<float>(std::accumulate(sum.row(r).begin(), sum.row(r).end(), 0.0)));
    return sums;
  }
  std::vector<float> column_sums() const {
    std::vector<float> sums;
    for (std::size_t c = 0; c < sum.cols(); ++c) {
      double total = 0.0;
      for (std::size_t r = 0; r < sum.rows(); ++r) total += sum(r, c);
      sums.push_back(static_cast<float>(total));
    }
    return sums;
  }
  std::vector<float> values() const { return {sum.values().begin(), sum.values().end()}; }
};

TEST_P(BackwardGolden, FisherMatricesAreThoseOfTheReferenceImplementation) {
  const GoldenModel golden = GetParam();
  if (const auto reason = golden.reason_to_skip()) GTEST_SKIP() << *reason;
  const LoadedModel loaded = load(golden.model_directory());
  const GoldenTensors expected(golden.golden("calibration.safetensors"));
  const Matrix<float> window_losses = expected.matrix("windows.loss");
  const std::size_t windows = window_losses.size();

  LossInput<float> input{expected.ids("windows.ids"), {}, {}, {}};
  const std::size_t length = input.tokens.size() / windows;
  for (std::size_t r = 0; r < input.tokens.size(); ++r) {
    if (r % length == 0) input.starts.push_back(r);
    const bool last = r % length == length - 1;
    input.targets.push_back(last ? -1 : static_cast<std::int64_t>(input.tokens[r + 1]));
    input.weights.push_back(1.0f / static_cast<float>(length - 1));
  }
  input.starts.push_back(input.tokens.size());

  std::map<std::string, model::Stored> stored;  // of each linear layer
  std::map<std::string, Fisher> fisher;         // by the name of the stored matrix, without ".weight"
  const auto base_name = [](const model::Stored& s) { return s.tensor.substr(0, s.tensor.rfind('.')); };
  for (const model::Parameter* layer : model::linear_layers(loaded.architecture)) {
    stored[layer->module] = layer->weight;
    fisher.try_emplace(base_name(layer->weight), layer->weight);
  }
  std::vector<float> losses;
  model::Hooks<float> hooks;
  hooks.on_linear_gradient = [&](const std::string& module, MatrixView<const float> x, MatrixView<const float> dy,
                                 const model::HookRows&) {
    if (module == "lm_head") return;
    const model::Stored& place = stored.at(module);
    for (std::size_t w = 0; w < windows; ++w)
      fisher.at(base_name(place))
          .add(place, weight_gradient<float>(x.rows_slice(w * length, length), dy.rows_slice(w * length, length)),
               w == 0);
  };
  run_backward(*loaded.model, input, hooks, &losses);

  std::vector<float> means(windows);
  for (std::size_t r = 0; r < losses.size(); ++r) means[r / length] += losses[r] * input.weights[r];
  EXPECT_TRUE(all_near(means, window_losses.values(), {.rel = 1e-5}));
  int full_matrices = 0;
  for (const auto& [name, f] : fisher) {
    const auto tensor = [&, base = name](const char* what) { return expected.matrix(base + what); };
    EXPECT_TRUE(relative_error_within(f.row_sums(), tensor(".fisher_row_sums").values(), 1e-3)) << name;
    EXPECT_TRUE(relative_error_within(f.column_sums(), tensor(".fisher_col_sums").values(), 1e-3)) << name;
    if (!expected.contains(name + ".fisher")) continue;
    ++full_matrices;
    EXPECT_TRUE(relative_error_within(f.values(), tensor(".fisher").values(), 1e-3)) << name;
    EXPECT_TRUE(relative_error_within(f.first_window.values(), tensor(".grad_window0").values(), 1e-3)) << name;
  }
  EXPECT_EQ(full_matrices, 2);
}

INSTANTIATE_TEST_SUITE_P(Models, BackwardGolden, testing::ValuesIn(std::span(kGoldenModels).first(4)),
                         golden_test_name);

}  // namespace
}  // namespace nibble::test

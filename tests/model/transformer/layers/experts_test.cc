#include "model/transformer/layers/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <limits>
#include <numeric>

#include "core/machine/thread_pool.h"
#include "tests/model/transformer/layers/toy_layers.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::test {
namespace {

using Complex = std::complex<double>;
using model::Activation;
using model::Experts;
using model::ExpertsSpec;
using model::FeedForwardScratch;
using Rule = ExpertsSpec::Routing;

constexpr double kStep = 1e-30;
constexpr std::size_t kHidden = 8, kIntermediate = 10;

struct Case {
  const char* name;
  Rule routing;
  bool renormalise;
  Activation activation;
  bool biased, shared, shared_gate;
  bool corrected = false;
  std::size_t groups = 1, active_groups = 1;
  double scale = 1.0;
};
// The kinds of mixtures that there are, by the families that have them.
const Case kCases[] = {
    {"mixtral", Rule::kSoftmaxThenTop, true, Activation::kSilu, false, false, false},
    {"olmoe", Rule::kSoftmaxThenTop, false, Activation::kSilu, false, false, false},
    {"qwen2_moe", Rule::kSoftmaxThenTop, false, Activation::kSilu, false, true, true},
    {"granitemoeshared", Rule::kTopThenSoftmax, false, Activation::kSilu, false, true, false},
    {"gpt_oss", Rule::kTopThenSoftmax, false, Activation::kClampedSwiglu, true, false, false},
    {"everything", Rule::kSoftmaxThenTop, false, Activation::kGelu, true, true, true},
    {"glm4_moe", Rule::kSigmoidThenTop, true, Activation::kSilu, false, true, false, true, 1, 1, 2.5},
    {"dots1", Rule::kSigmoidThenTop, false, Activation::kSilu, false, true, false, true, 1, 1, 0.7},
    {"deepseek_v3", Rule::kSigmoidThenTop, true, Activation::kSilu, false, true, false, true, 3, 2, 2.5},
    {"ernie4_5_moe", Rule::kSoftmaxThenTop, true, Activation::kSilu, false, true, false, true},
    {"groups_renormalised", Rule::kSoftmaxThenTop, true, Activation::kSilu, false, false, false, true, 3, 1, 0.5},
    {"groups_of_probabilities", Rule::kSoftmaxThenTop, false, Activation::kSilu, true, false, false, false, 2, 1, 3.0},
    {"corrected_logits", Rule::kTopThenSoftmax, false, Activation::kSilu, true, false, false, true, 2, 1, 1.5},
};

ExpertsSpec add_mixture(ToyLayers& layers, const Case& c, std::size_t experts, std::size_t active) {
  ExpertsSpec spec;
  spec.routing = c.routing, spec.renormalise = c.renormalise, spec.active = active;
  spec.groups = c.groups, spec.active_groups = c.active_groups, spec.scale = c.scale;
  spec.router = layers.add("router", experts, kHidden, c.biased);
  for (std::size_t e = 0; e < experts; ++e)
    spec.experts.push_back(layers.add_mlp("experts." + std::to_string(e), c.activation, true, kHidden,
                                          kIntermediate + (e == 1 ? 3 : 0), c.biased));
  if (c.shared) spec.shared = layers.add_mlp("shared", c.activation, true, kHidden, kIntermediate + 5, c.biased);
  if (c.corrected) {
    (void)layers.add("correction", experts, 1, true);
    spec.correction = model::whole_vector("correction.bias", experts);
  }
  if (c.shared_gate) spec.shared_gate = layers.add("shared_gate", 1, kHidden, false);
  return spec;
}

// The `count` largest, of equal ones the first.
std::vector<std::size_t> largest(const std::vector<double>& values, std::size_t count) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  order.resize(count);
  return order;
}

// Experts of a token and their weights, by sorting.
std::vector<std::pair<std::size_t, double>> naive_choice(const ToyLayers& layers, const ExpertsSpec& spec,
                                                         const std::vector<double>& logits) {
  double all = 0.0, chosen = 0.0;
  for (const double logit : logits) all += std::exp(logit);
  std::vector<double> scores, values;
  for (std::size_t e = 0; e < logits.size(); ++e) {
    const double l = logits[e];
    scores.push_back(spec.routing == Rule::kSoftmaxThenTop   ? std::exp(l) / all
                     : spec.routing == Rule::kSigmoidThenTop ? 1.0 / (1.0 + std::exp(-l))
                                                             : l);
    values.push_back(scores[e] + (spec.correction ? layers.layers.at("correction").bias[e] : 0.0));
  }
  const std::size_t size = logits.size() / spec.groups;
  std::vector<double> worths;
  for (std::size_t g = 0; g < spec.groups; ++g) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(g * size);
    std::vector<double> group(first, first + static_cast<std::ptrdiff_t>(size));
    std::sort(group.rbegin(), group.rend());
    worths.push_back(group[0] + group[1]);
  }
  const std::vector<std::size_t> groups = largest(worths, spec.active_groups);
  for (std::size_t e = 0; e < values.size(); ++e)
    if (std::find(groups.begin(), groups.end(), e / size) == groups.end()) values[e] = -1e300;
  std::vector<std::size_t> order = largest(values, spec.active);
  std::sort(order.begin(), order.end());
  const bool of_chosen = spec.routing == Rule::kTopThenSoftmax;
  for (const std::size_t e : order) chosen += of_chosen ? std::exp(logits[e]) : scores[e];
  if (spec.routing == Rule::kSigmoidThenTop) chosen += 1e-20;
  std::vector<std::pair<std::size_t, double>> list;
  for (const std::size_t e : order) {
    const double weight = of_chosen ? std::exp(logits[e]) / chosen : spec.renormalise ? scores[e] / chosen : scores[e];
    list.emplace_back(e, spec.scale * weight);
  }
  return list;
}

std::vector<double> naive_mixture(const ToyLayers& layers, const ExpertsSpec& spec, const std::vector<double>& x) {
  std::vector<double> y(kHidden, 0.0);
  const auto add = [&](double weight, const std::vector<double>& part) {
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += weight * part[i];
  };
  for (const auto& [e, weight] : naive_choice(layers, spec, naive::linear(layers, spec.router, x)))
    add(weight, naive::mlp(layers, spec.experts[e], x));
  if (spec.shared) {
    const double logit = spec.shared_gate ? naive::linear(layers, *spec.shared_gate, x)[0] : 0.0;
    add(spec.shared_gate ? 1.0 / (1.0 + std::exp(-logit)) : 1.0, naive::mlp(layers, *spec.shared, x));
  }
  return y;
}

template <class T>
Matrix<T> output_of(const Experts<T>& experts, const Matrix<T>& x) {
  Matrix<T> y(x.rows(), x.cols());
  std::fill(y.values().begin(), y.values().end(), T(1e9));  // to be overwritten
  FeedForwardScratch<T> scratch;
  experts.forward(x, y, scratch, nullptr);
  return y;
}

template <class T>
void expect_naive(const ToyLayers& layers, const ExpertsSpec& spec, const Matrix<T>& x, const Matrix<T>& y,
                  double tolerance) {
  for (std::size_t t = 0; t < x.rows(); ++t) {
    const auto expected = naive_mixture(layers, spec, {x.row(t).begin(), x.row(t).end()});
    EXPECT_TRUE(
        all_near(std::vector<double>(y.row(t).begin(), y.row(t).end()), expected, {.abs = tolerance, .rel = tolerance}))
        << t;
  }
}

class ExpertsOf : public testing::TestWithParam<Case> {
 protected:
  ToyLayers layers{11};
  const ExpertsSpec spec = add_mixture(layers, GetParam(), 6, 2);
};

TEST_P(ExpertsOf, ForwardIsTheFormula) {
  for (const std::size_t tokens : {1u, 2u, 7u, 100u}) {
    const auto x = random_rows<float>(tokens, kHidden, tokens, 1.5);
    // Some 60 roundings of sums of values below 10 in float.
    expect_naive(layers, spec, x, output_of(Experts<float>(spec, layers.factory<float>(), layers), x), 3e-5);
    const auto wide = random_rows<double>(tokens, kHidden, tokens, 1.5);
    expect_naive(layers, spec, wide, output_of(Experts<double>(spec, layers.factory<double>(), layers), wide), 1e-12);
  }
}

TEST_P(ExpertsOf, GradientsAreThoseOfTheComplexStep) {
  const std::size_t tokens = 6;
  const auto x = random_rows<double>(tokens, kHidden, 3, 1.5), dy = random_rows<double>(tokens, kHidden, 4);
  const Experts<double> experts(spec, layers.factory<double>(), layers);
  FeedForwardScratch<double> scratch;
  Matrix<double> dx(tokens, kHidden);
  Reports<double> reports;
  const auto hooks = reports.hooks();
  experts.recompute(x, {}, scratch);
  experts.backward(x, dy, dx, scratch, &hooks);

  FeedForwardScratch<Complex> complex_scratch;
  Matrix<Complex> z(tokens, kHidden), y(tokens, kHidden);
  const auto loss_slope = [&](const Experts<Complex>& network) {
    network.forward(z, y, complex_scratch, nullptr);
    double slope = 0.0;
    for (std::size_t i = 0; i < y.size(); ++i) slope += y.values()[i].imag() / kStep * dy.values()[i];
    return slope;
  };
  const Experts<Complex> complex_experts(spec, layers.factory<Complex>(), layers);
  std::vector<double> expected;
  for (std::size_t i = 0; i < z.size(); ++i) {
    for (std::size_t j = 0; j < z.size(); ++j) z.values()[j] = x.values()[j];
    z.values()[i] += Complex(0.0, kStep);
    expected.push_back(loss_slope(complex_experts));
  }
  // Both sides are exact to some hundreds of roundings of doubles.
  EXPECT_TRUE(all_near(dx.values(), expected, {.abs = 1e-12, .rel = 1e-11}));

  for (std::size_t j = 0; j < z.size(); ++j) z.values()[j] = x.values()[j];
  std::size_t checked = 0;
  for (const auto& [module, layer] : layers.layers) {
    const auto report = std::find_if(reports.gradients.begin(), reports.gradients.end(),
                                     [&, name = module](const auto& r) { return r.module == name; });
    for (std::size_t i = 0; i < layer.weight.size(); i += 17) {
      const std::size_t row = i / layer.weight.cols(), col = i % layer.weight.cols();
      double gradient = 0.0;  // dYᵀ X of what the hook saw; nothing for experts that nobody chose
      if (report != reports.gradients.end())
        for (std::size_t t = 0; t < report->x.rows(); ++t) gradient += report->dy(t, row) * report->x(t, col);
      const Experts<Complex> changed(
          spec, layers.factory<Complex>([&, name = module](const std::string& of, Matrix<Complex>& weight) {
            if (of == name) weight(row, col) += Complex(0.0, kStep);
          }),
          layers);
      EXPECT_TRUE(near(gradient, loss_slope(changed), {.abs = 1e-12, .rel = 1e-11})) << module;
      ++checked;
    }
  }
  EXPECT_GT(checked, layers.layers.size());
}

TEST_P(ExpertsOf, HooksAreToldTheRowsThatAnExpertSaw) {
  const std::size_t tokens = 40;
  const auto x = random_rows<double>(tokens, kHidden, 5);
  Matrix<double> y(tokens, kHidden), dx(tokens, kHidden);
  const Experts<double> experts(spec, layers.factory<double>(), layers);
  FeedForwardScratch<double> scratch;
  Reports<double> reports;
  const auto hooks = reports.hooks();
  experts.forward(x, y, scratch, &hooks);
  experts.recompute(x, {}, scratch);
  experts.backward(x, x, dx, scratch, &hooks);
  EXPECT_EQ(reports.inputs.size(), reports.gradients.size());
  for (std::size_t e = 0; e < 6; ++e) {
    std::vector<std::size_t> rows;
    for (std::size_t t = 0; t < tokens; ++t)
      for (const auto& choice :
           naive_choice(layers, spec, naive::linear(layers, spec.router, {x.row(t).begin(), x.row(t).end()})))
        if (choice.first == e) rows.push_back(t);
    for (const auto* list : {&reports.inputs, &reports.gradients})
      for (const char* part : {".gate", ".up", ".down"}) {
        std::size_t times = 0;
        for (const auto& report : *list) {
          if (report.module != "experts." + std::to_string(e) + part) continue;
          ++times;
          EXPECT_EQ(report.rows, rows);
          if (std::string(part) == ".down") continue;
          for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_TRUE(same_bits(report.x.row(i), x.row(rows[i])));
        }
        EXPECT_EQ(times, rows.empty() ? 0u : 1u);
      }
  }
  for (const char* whole : {"router", "shared_gate", "shared.down"})
    for (const auto& report : reports.inputs)
      if (report.module == whole) {
        EXPECT_TRUE(report.rows.empty());
      }
}

TEST_P(ExpertsOf, APassThatEndsAtALayerPassesOverTheOtherExperts) {
  const auto x = random_rows<float>(40, kHidden, 5);
  Matrix<float> y(40, kHidden);
  const Experts<float> experts(spec, layers.factory<float>(), layers);
  const auto reports_until = [&](const std::string& module) {
    FeedForwardScratch<float> scratch;
    Reports<float> reports;
    auto hooks = reports.hooks();
    if (!module.empty()) hooks.until = {module};
    EXPECT_EQ(experts.forward(x, y, scratch, &hooks), module.empty()) << module;
    return std::move(reports.inputs);
  };
  const auto whole = reports_until("");
  ASSERT_FALSE(whole.empty());
  for (const auto& last : whole) {
    const std::string mlp = last.module.substr(0, last.module.rfind('.') + 1);  // "experts.3."; of the router nothing
    std::size_t expected = 1;
    for (const auto* report = whole.data(); report != &last; ++report)
      expected += report->module == "router" || (!mlp.empty() && report->module.starts_with(mlp)) ||
                  (last.module == "shared_gate" && report->module.starts_with("shared."));
    const auto part = reports_until(last.module);
    EXPECT_EQ(part.size(), expected) << last.module;
    ASSERT_FALSE(part.empty());
    EXPECT_EQ(part.back().module, last.module);
    EXPECT_EQ(part.back().rows, last.rows);
    EXPECT_TRUE(same_bits(part.back().x.values(), last.x.values())) << last.module;
  }
}

TEST_P(ExpertsOf, APassMayEndInSeveralExpertsAndInOneThatNoRowChose) {
  const std::size_t tokens = 40;
  const auto x = random_rows<float>(tokens, kHidden, 5);
  const auto few = random_rows<float>(1, kHidden, 5);
  Matrix<float> y(tokens, kHidden), one(1, kHidden);
  const Experts<float> experts(spec, layers.factory<float>(), layers);
  FeedForwardScratch<float> scratch;
  for (const std::string part : {".gate", ".down"}) {
    Reports<float> whole, ended;
    auto all = whole.hooks(), hooks = ended.hooks();
    for (std::size_t e = 0; e < 6; ++e) hooks.until.push_back("experts." + std::to_string(e) + part);
    EXPECT_TRUE(experts.forward(x, y, scratch, &all));
    EXPECT_FALSE(experts.forward(x, y, scratch, &hooks));
    std::size_t compared = 0;
    for (const auto& report : whole.inputs) {
      if (!report.module.starts_with("experts.") || !report.module.ends_with(part)) continue;
      const auto same = std::find_if(ended.inputs.begin(), ended.inputs.end(),
                                     [&](const auto& other) { return other.module == report.module; });
      ASSERT_NE(same, ended.inputs.end()) << report.module;
      EXPECT_EQ(same->rows, report.rows);
      EXPECT_TRUE(same_bits(same->x.values(), report.x.values())) << report.module;
      ++compared;
    }
    EXPECT_GT(compared, 1u);

    // One row chooses spec.active of six.
    whole.inputs.clear();
    experts.forward(few, one, scratch, &all);
    for (std::size_t e = 0; e < 6; ++e) {
      const std::string module = "experts." + std::to_string(e) + part;
      const bool chosen = std::any_of(whole.inputs.begin(), whole.inputs.end(),
                                      [&](const auto& report) { return report.module == module; });
      if (chosen) continue;
      ended.inputs.clear();
      hooks.until = {module};
      EXPECT_FALSE(experts.forward(few, one, scratch, &hooks));
      ASSERT_EQ(ended.inputs.size(), 1u) << module;
      EXPECT_EQ(ended.inputs[0].module, "router");
    }
  }
}

TEST_P(ExpertsOf, ThreadsAndHooksChangeNoBit) {
  const ToyLayers& toy = layers;
  const auto x = random_rows<float>(90, kHidden, 6), dy = random_rows<float>(90, kHidden, 7);
  const Experts<float> experts(spec, toy.factory<float>(), toy);
  std::vector<std::vector<float>> results;
  for (const std::size_t threads : {1u, 2u, 3u, 5u}) {
    const ThreadTeam team(threads);
    for (const bool hooked : {false, true}) {
      FeedForwardScratch<float> scratch;
      Reports<float> reports;
      const auto hooks = reports.hooks();
      Matrix<float> y(90, kHidden), dx(90, kHidden);
      experts.forward(x, y, scratch, hooked ? &hooks : nullptr);
      experts.recompute(x, {}, scratch);
      experts.backward(x, dy, dx, scratch, hooked ? &hooks : nullptr);
      results.emplace_back(y.values().begin(), y.values().end());
      results.back().insert(results.back().end(), dx.values().begin(), dx.values().end());
    }
  }
  for (const auto& result : results) EXPECT_TRUE(same_bits(result, results.front()));
}

TEST_P(ExpertsOf, RecomputeGivesTheSameOutputAndGradient) {
  const auto x = random_rows<float>(20, kHidden, 8), dy = random_rows<float>(20, kHidden, 9);
  const Experts<float> experts(spec, layers.factory<float>(), layers);
  FeedForwardScratch<float> scratch;
  Matrix<float> y(20, kHidden), again(20, kHidden), dx(20, kHidden), dx_again(20, kHidden);
  experts.forward(x, y, scratch, nullptr);
  experts.recompute(x, {}, scratch);
  experts.backward(x, dy, dx, scratch, nullptr);
  experts.recompute(x, again, scratch);
  for (float& value : scratch.part.view(20, kHidden).row(0)) value = std::numeric_limits<float>::quiet_NaN();
  experts.backward(x, dy, dx_again, scratch, nullptr);
  EXPECT_TRUE(same_bits(again.values(), y.values()));
  EXPECT_TRUE(same_bits(dx_again.values(), dx.values()));
}

INSTANTIATE_TEST_SUITE_P(Mixtures, ExpertsOf, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

// A router that ignores its input: a bias alone decides.
ExpertsSpec add_biased_mixture(ToyLayers& layers, const std::vector<double>& logits, std::size_t active,
                               Case c = kCases[4]) {
  c.biased = true;
  ExpertsSpec spec = add_mixture(layers, c, logits.size(), active);
  for (double& value : layers.layers.at("router").weight.values()) value = 0.0;
  layers.layers.at("router").bias = logits;
  return spec;
}

std::vector<std::size_t> experts_used(const ToyLayers& layers, const ExpertsSpec& spec, std::size_t tokens) {
  const auto x = random_rows<double>(tokens, kHidden, 1);
  Reports<double> reports;
  const auto hooks = reports.hooks();
  FeedForwardScratch<double> scratch;
  Matrix<double> y(tokens, kHidden);
  Experts<double>(spec, layers.factory<double>(), layers).forward(x, y, scratch, &hooks);
  expect_naive(layers, spec, x, y, 1e-12);
  std::vector<std::size_t> used;
  for (const auto& report : reports.inputs)
    if (report.module.starts_with("experts.") && report.module.ends_with(".down")) {
      EXPECT_EQ(report.x.rows(), tokens);
      used.push_back(std::stoul(report.module.substr(8)));
    }
  return used;
}

TEST(ExpertsTest, OfEqualLogitsTheLowerIndexWins) {
  ToyLayers all(1), some(2), four(3);
  using Indices = std::vector<std::size_t>;
  EXPECT_EQ(experts_used(all, add_biased_mixture(all, {0.5, 0.5, 0.5, 0.5}, 2), 3), (Indices{0, 1}));
  EXPECT_EQ(experts_used(some, add_biased_mixture(some, {0.1, 0.5, 0.9, 0.5, 0.5}, 2), 3), (Indices{1, 2}));
  EXPECT_EQ(experts_used(four, add_biased_mixture(four, {1.0, 2.0, 2.0, 1.0, 3.0, 1.0}, 4), 1), (Indices{0, 1, 2, 4}));
}

TEST(ExpertsTest, GroupsAreWorthTheirTwoBestExperts) {
  using Indices = std::vector<std::size_t>;
  Case c = kCases[8];
  c.shared = c.corrected = false;
  const auto used = [&](std::size_t groups, std::size_t some, const std::vector<double>& logits, std::size_t active) {
    ToyLayers layers(12);
    c.groups = groups, c.active_groups = some;
    return experts_used(layers, add_biased_mixture(layers, logits, active, c), 2);
  };
  EXPECT_EQ(used(2, 1, {5, -5, -5, 1, 1, -5}, 2), (Indices{3, 4})) << "one good expert does not make a group";
  EXPECT_EQ(used(2, 1, {-5, 2, 2, 1, 1, 1}, 2), (Indices{1, 2})) << "nor do three";
  EXPECT_EQ(used(2, 1, {1, 0, 1, 5, -9, -9}, 3), (Indices{0, 1, 2})) << "whatever other groups have";
  EXPECT_EQ(used(3, 2, {1, 1, 0, 0, 2, 2}, 2), (Indices{4, 5}));
  EXPECT_EQ(used(3, 2, {1, 1, 0, 0, 2, 2}, 3), (Indices{0, 4, 5}));
  EXPECT_EQ(used(2, 1, {0, 0, 0, 0}, 2), (Indices{0, 1})) << "of equal ones the first";
  EXPECT_EQ(used(3, 2, {0, 0, 0, 0, 0, 0}, 4), (Indices{0, 1, 2, 3}));
}

TEST(ExpertsTest, ACorrectionDecidesTheChoiceAndIsInNoWeight) {
  for (const std::size_t which : {6u, 9u}) {
    ToyLayers layers(13);
    const ExpertsSpec spec = add_biased_mixture(layers, {3.0, 2.0, -1.0, -2.0}, 2, kCases[which]);
    layers.layers.at("correction").bias = {-2.0, 0.0, 1.0, 2.0};
    EXPECT_EQ(experts_used(layers, spec, 3), (std::vector<std::size_t>{2, 3})) << "weights are those of the formula";
  }
}

TEST(ExpertsTest, SigmoidsThatAreAllNothingWeighNothing) {
  ToyLayers layers(14);
  Case c = kCases[6];
  c.shared = false;
  const ExpertsSpec spec = add_biased_mixture(layers, std::vector<double>(4, -120.0), 2, c);
  const auto y = output_of(Experts<float>(spec, layers.factory<float>(), layers), random_rows<float>(2, kHidden, 1));
  for (const float value : y.values()) EXPECT_EQ(value, 0.0f);
}

TEST(ExpertsTest, AllTokensMayGoToOneExpertOrToAll) {
  ToyLayers one(4), all(5);
  EXPECT_EQ(experts_used(one, add_biased_mixture(one, {0.0, 0.0, 9.0, 0.0}, 1), 50), (std::vector<std::size_t>{2}));
  EXPECT_EQ(experts_used(all, add_biased_mixture(all, {0.0, 1.0, 2.0}, 3), 50), (std::vector<std::size_t>{0, 1, 2}));
}

// Operators that count what they are asked for.
class CountingLinear final : public LinearOp<float> {
 public:
  CountingLinear(std::unique_ptr<LinearOp<float>> op, std::vector<const float*>& inputs)
      : op_(std::move(op)), inputs_(inputs) {}
  std::size_t in_features() const override { return op_->in_features(); }
  std::size_t out_features() const override { return op_->out_features(); }
  void forward(MatrixView<const float> x, MatrixView<float> y) const override {
    inputs_.push_back(x.data());
    op_->forward(x, y);
  }
  void backward_input(MatrixView<const float> dy, MatrixView<float> dx) const override { op_->backward_input(dy, dx); }

 private:
  std::unique_ptr<LinearOp<float>> op_;
  std::vector<const float*>& inputs_;
};

TEST(ExpertsTest, ATokenMeetsItsExpertsAloneAndIsNotCopied) {
  const ThreadTeam team(1);  // the counters are shared
  ToyLayers layers(6);
  const ExpertsSpec spec = add_mixture(layers, kCases[0], 8, 2);
  std::vector<const float*> inputs;
  const auto make = layers.factory<float>();
  const Experts<float> experts(
      spec, [&](const model::Parameter& p) { return std::make_unique<CountingLinear>(make(p), inputs); }, layers);
  const auto x = random_rows<float>(1, kHidden, 1);
  Matrix<float> y(1, kHidden);
  FeedForwardScratch<float> scratch;
  experts.forward(x, y, scratch, nullptr);
  EXPECT_EQ(inputs.size(), 1u + 2u * 3u);  // the router, and gate, up and down of two experts
  EXPECT_EQ(std::count(inputs.begin(), inputs.end(), x.data()), 5);
}

TEST(ExpertsTest, NoRowsAreNoWork) {
  ToyLayers layers(7);
  const Experts<float> experts(add_mixture(layers, kCases[2], 4, 2), layers.factory<float>(), layers);
  Matrix<float> none(0, kHidden);
  FeedForwardScratch<float> scratch;
  experts.forward(none, none, scratch, nullptr);
  experts.recompute(none, {}, scratch);
  experts.backward(none, none, none, scratch, nullptr);
}

TEST(ExpertsTest, ANanInTheRouterShowsInTheOutput) {
  for (const std::size_t which : {0u, 1u, 3u, 6u, 8u, 9u}) {
    ToyLayers layers(8);
    const ExpertsSpec spec = add_mixture(layers, kCases[which], 6, 2);
    auto x = random_rows<float>(3, kHidden, 1);
    layers.layers.at("router").weight(3, 0) = std::numeric_limits<double>::quiet_NaN();
    const auto y = output_of(Experts<float>(spec, layers.factory<float>(), layers), x);
    for (std::size_t t = 0; t < 3; ++t) EXPECT_TRUE(std::isnan(y(t, 0)));
  }
}

TEST(ExpertsTest, MemoryIsThatOfTheBatchNotOfTheExperts) {
  ToyLayers layers(9);
  const ExpertsSpec spec = add_mixture(layers, kCases[0], 32, 8);
  const auto x = random_rows<float>(100, kHidden, 1);
  Matrix<float> y(100, kHidden);
  FeedForwardScratch<float> scratch;
  Experts<float>(spec, layers.factory<float>(), layers).forward(x, y, scratch, nullptr);
  EXPECT_LE(scratch.gathered.size(), 100 * kHidden);
  EXPECT_LE(scratch.outputs.size(), 100 * kHidden);
  EXPECT_LE(scratch.inner.size(), 100 * 2 * (kIntermediate + 3));
  expect_naive(layers, spec, x, y, 3e-5);  // in several groups of experts
}

TEST(ExpertsTest, WhatDoesNotFitIsRefused) {
  ToyLayers layers(10);
  ExpertsSpec spec = add_mixture(layers, kCases[2], 4, 5);
  const auto make = [&] { Experts<float>(spec, layers.factory<float>(), layers); };
  EXPECT_TRUE(throws_with<InvalidArgument>(make, "router", "1 to 4 active", "got 5"));
  spec.active = 0;
  EXPECT_TRUE(throws_with<InvalidArgument>(make, "1 to 4 active", "got 0"));
  spec.active = 2;
  for (const std::size_t groups : {3u, 4u, 0u}) {
    spec.groups = groups;
    EXPECT_TRUE(throws_with<InvalidArgument>(make, "router", "groups of two experts or more", "got", "for 4"));
  }
  spec.groups = 2;
  spec.active_groups = 3;
  EXPECT_TRUE(throws_with<InvalidArgument>(make, "router", "3 of 2 groups do not have 2 active experts"));
  spec.active_groups = 1;
  spec.active = 3;
  EXPECT_TRUE(throws_with<InvalidArgument>(make, "router", "1 of 2 groups do not have 3 active experts"));
  spec.active = 2;
  spec.scale = 0.0;
  EXPECT_TRUE(throws_with<InvalidArgument>(make, "router", "positive scale"));
  spec.scale = 1.0;
  (void)layers.add("correction", 3, 1, true);
  spec.correction = model::whole_vector("correction.bias", 4);
  EXPECT_TRUE(throws_with<InvalidArgument>(make, "router", "correction of 4 experts, got 3"));
  spec.correction.reset();
  spec.shared.reset();
  EXPECT_TRUE(throws_with<InvalidArgument>(make, "shared_gate", "shared expert"));
  spec.shared_gate.reset();
  spec.experts[3].down.out = 9;
  EXPECT_TRUE(throws_with<InvalidArgument>(make, "experts.3.down", "writes 9"));
}

}  // namespace
}  // namespace nibble::test

#include "model/transformer/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "core/error.h"
#include "tests/model/transformer/toy_weights.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::test {
namespace {

using model::sample_token;

std::set<TokenId> drawn(const std::vector<float>& logits, const model::SamplingOptions& options) {
  Random random(1);
  std::set<TokenId> ids;
  for (int i = 0; i < 2000; ++i) ids.insert(sample_token(logits, options, random));
  return ids;
}

TEST(SampleToken, TakesTheLargestWithoutTemperature) {
  Random random(1);
  EXPECT_EQ(sample_token(std::vector<float>{1.0f, 3.0f, 3.0f, 2.0f}, {}, random), 1u);  // the lowest of equal ones
  EXPECT_EQ(random.next(), Random(1).next());                                           // and draws nothing
}

TEST(SampleToken, FollowsTheSoftmaxOfTheTemperature) {
  const std::vector<float> logits{0.0f, 1.0f, 2.0f};
  const double temperature = 0.7;
  std::vector<double> counts(3), expected(3);
  double total = 0.0;
  for (std::size_t i = 0; i < 3; ++i) total += expected[i] = std::exp(static_cast<double>(logits[i]) / temperature);
  Random random(5);
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) counts[sample_token(logits, {.temperature = temperature}, random)] += 1.0 / kDraws;
  for (double& p : expected) p /= total;
  EXPECT_TRUE(all_near(counts, expected, {.abs = 0.008}));  // five standard deviations of 100,000 draws at p = 1/2
}

TEST(SampleToken, TopKLeavesTheLargest) {
  EXPECT_EQ(drawn({0.0f, 3.0f, 1.0f, 2.0f, 3.0f}, {.temperature = 5.0, .top_k = 3}), (std::set<TokenId>{1, 3, 4}));
  EXPECT_EQ(drawn({0.0f, 0.0f}, {.temperature = 1.0, .top_k = 9}), (std::set<TokenId>{0, 1}));
}

TEST(SampleToken, TopPLeavesTheFewestWithThatMass) {
  // Probabilities 0.5, 0.25, 0.125, 0.125.
  const float half = std::log(0.5f);
  const std::vector<float> logits{3 * half, half, 2 * half, 3 * half};
  EXPECT_EQ(drawn(logits, {.temperature = 1.0, .top_p = 0.4}), (std::set<TokenId>{1}));
  EXPECT_EQ(drawn(logits, {.temperature = 1.0, .top_p = 0.7}), (std::set<TokenId>{1, 2}));
  EXPECT_EQ(drawn(logits, {.temperature = 1.0, .top_p = 0.8}), (std::set<TokenId>{0, 1, 2}));
  EXPECT_EQ(drawn(logits, {.temperature = 1.0, .top_p = 1.0}), (std::set<TokenId>{0, 1, 2, 3}));
}

TEST(SampleToken, NeverDrawsWhatHasNoProbability) {
  const float never = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(drawn({never, 0.0f, never, 0.0f, never}, {.temperature = 1.0}), (std::set<TokenId>{1, 3}));
}

TEST(SampleToken, RefusesImpossibleOptions) {
  Random random(1);
  const std::vector<float> logits{1.0f};
  EXPECT_TRUE(
      throws_with<InvalidArgument>([&] { sample_token(logits, {.temperature = -1.0}, random); }, "temperature", "-1"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { sample_token(logits, {.top_p = 0.0}, random); }, "top_p", "0"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { sample_token(logits, {.top_p = 1.5}, random); }, "top_p", "1.5"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { sample_token({}, {}, random); }, "at least one logit"));
}

TEST(Generate, IsRepeatableBySeed) {
  const auto architecture = toy_llama();
  const auto network = model::make_model(architecture, ToyWeights(architecture, 3));
  const auto prompt = toy_tokens(architecture, 5, 1);
  const auto run = [&](std::uint64_t seed) {
    return model::generate(*network, prompt, {.sampling = {.temperature = 1.0}, .max_tokens = 20, .seed = seed});
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
  EXPECT_EQ(run(1).size(), 20u);
}

TEST(Generate, StopsAtAStopTokenAndReturnsIt) {
  auto architecture = toy_llama();
  const auto prompt = toy_tokens(architecture, 5, 1);
  const auto free =
      model::generate(*model::make_model(architecture, ToyWeights(architecture, 3)), prompt, {.max_tokens = 20});
  architecture.stop_tokens = {49, free[3]};
  std::vector<TokenId> seen;
  const auto stopped = model::generate(*model::make_model(architecture, ToyWeights(architecture, 3)), prompt,
                                       {.max_tokens = 20}, [&](TokenId id) { seen.push_back(id); });
  EXPECT_EQ(stopped.back(), free[3]);
  EXPECT_LE(stopped.size(), 4u);
  EXPECT_EQ(seen, stopped);
}

TEST(Generate, EndsWithThePositions) {
  const auto architecture = toy_gpt2({.max_positions = 12});
  const auto network = model::make_model(architecture, ToyWeights(architecture, 3));
  // 5 + 7 positions are fed; the eighth new token needs none.
  EXPECT_EQ(model::generate(*network, toy_tokens(architecture, 5, 1), {.max_tokens = 50}).size(), 8u);
  EXPECT_EQ(model::generate(*network, toy_tokens(architecture, 12, 1), {.max_tokens = 50}).size(), 1u);
  EXPECT_EQ(model::generate(*network, toy_tokens(architecture, 5, 1), {.max_tokens = 0}).size(), 0u);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { model::generate(*network, toy_tokens(architecture, 13, 1), {}); },
                                           "13 tokens", "12 positions"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { model::generate(*network, {}, {}); }, "at least one token"));
}

}  // namespace
}  // namespace nibble::test

#include "cli/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "core/error.h"
#include "tests/support/throws.h"

namespace nibble::cli {
namespace {

using test::throws_with;

// How often each id comes out of `draws` draws.
std::map<model::TokenId, int> counts(const SamplingOptions& options, const std::vector<float>& logits, int draws) {
  Sampler sampler(options);
  std::map<model::TokenId, int> count;
  for (int i = 0; i < draws; ++i) ++count[sampler.pick(logits)];
  return count;
}

TEST(Sampler, TemperatureZeroTakesTheLargestAndOfEqualsTheFirst) {
  Sampler sampler({});
  EXPECT_EQ(sampler.pick(std::vector<float>{0.5f, 2.0f, -1.0f, 2.0f}), 1u);
}

TEST(Sampler, DrawsFromTheSoftmaxAtTheTemperature) {
  const std::vector<float> logits = {0.0f, 1.0f, 2.0f};
  constexpr int kDraws = 100'000;
  for (const double temperature : {0.5, 1.0, 3.0}) {
    const auto count = counts({.temperature = temperature, .seed = 1}, logits, kDraws);
    double total = 0.0;
    for (const float logit : logits) total += std::exp(static_cast<double>(logit) / temperature);
    for (model::TokenId id = 0; id < logits.size(); ++id) {
      const double p = std::exp(static_cast<double>(logits[id]) / temperature) / total;
      const double five_sigma = 5.0 * std::sqrt(kDraws * p * (1.0 - p));  // binomial
      EXPECT_LE(std::abs(count.at(id) - kDraws * p), five_sigma) << "temperature " << temperature << ", id " << id;
    }
  }
}

TEST(Sampler, TopKKeepsTheLikeliest) {
  const auto count = counts({.temperature = 5.0, .top_k = 2}, {0.0f, 3.0f, 1.0f, 2.0f}, 1000);
  EXPECT_EQ(count.size(), 2u);
  EXPECT_TRUE(count.contains(1) && count.contains(3));
}

TEST(Sampler, TopPKeepsTheFewestThatReachIt) {
  // Probabilities 0.5, 0.25, 0.125, 0.125.
  const std::vector<float> logits = {std::log(4.0f), std::log(2.0f), 0.0f, 0.0f};
  EXPECT_EQ(counts({.temperature = 1.0, .top_p = 0.4}, logits, 1000).size(), 1u);
  EXPECT_EQ(counts({.temperature = 1.0, .top_p = 0.7}, logits, 1000).size(), 2u);
  EXPECT_EQ(counts({.temperature = 1.0, .top_p = 0.8}, logits, 1000).size(), 3u);
  EXPECT_EQ(counts({.temperature = 1.0}, logits, 1000).size(), 4u);
}

TEST(Sampler, TheSeedDecidesTheSequence) {
  const std::vector<float> logits(100, 0.0f);
  const auto draw = [&](std::uint64_t seed) {
    Sampler sampler({.temperature = 1.0, .seed = seed});
    std::vector<model::TokenId> ids;
    for (int i = 0; i < 20; ++i) ids.push_back(sampler.pick(logits));
    return ids;
  };
  EXPECT_EQ(draw(7), draw(7));
  EXPECT_NE(draw(7), draw(8));
}

TEST(Sampler, HugeLogitsAndTinyTemperaturesDoNotOverflow) {
  Sampler sampler({.temperature = 1e-6});
  EXPECT_EQ(sampler.pick(std::vector<float>{-3e38f, 3e38f, 0.0f}), 1u);
}

TEST(Sampler, RefusesNonsense) {
  const auto make = [](SamplingOptions options) { return [options] { Sampler{options}; }; };
  EXPECT_TRUE(throws_with<InvalidArgument>(make({.temperature = -1.0}), "temperature"));
  EXPECT_TRUE(throws_with<InvalidArgument>(make({.temperature = std::nan("")}), "temperature"));
  EXPECT_TRUE(throws_with<InvalidArgument>(make({.top_p = 0.0}), "top-p"));
  EXPECT_TRUE(throws_with<InvalidArgument>(make({.top_p = 1.5}), "top-p"));
  Sampler sampler({});
  const std::vector<float> logits = {0.0f, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_TRUE(throws_with<NumericalError>([&] { sampler.pick(logits); }, "token 1 is NaN"));
}

}  // namespace
}  // namespace nibble::cli

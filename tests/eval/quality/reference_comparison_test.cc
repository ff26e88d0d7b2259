#include "eval/quality/reference_comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/random.h"
#include "tests/eval/quality/fake_model.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::eval {
namespace {

using datasets::Protocol;
using test::FakeModel;
using test::near;

constexpr std::size_t kVocabulary = 11;
constexpr Protocol kProtocols[]{Protocol::kSliding, Protocol::kBlocks, Protocol::kHalf};

std::vector<TokenId> random_text(std::size_t size) {
  Random random(4);
  std::vector<TokenId> text(size);
  for (TokenId& token : text) token = static_cast<TokenId>(random.below(kVocabulary));
  return text;
}

// Logits that depend on every token before the target; `noise` is what quantization adds.
std::vector<float> logits_after(std::span<const TokenId> prefix, double noise) {
  std::uint64_t seed = 17;
  for (const TokenId token : prefix) seed = Random(seed * 31 + token).next();
  Random random(seed);
  std::vector<float> logits(kVocabulary);
  for (float& logit : logits) logit = static_cast<float>(2.0 * random.normal());
  for (float& logit : logits) logit += static_cast<float>(noise * random.normal());
  return logits;
}

FakeModel noisy_model(double noise) {
  return {kVocabulary, [noise](std::span<const TokenId> prefix) { return logits_after(prefix, noise); }};
}

double log_sum(const std::vector<float>& logits) {
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  return std::log(sum);
}

TEST(CompareWithReference, AModelAndItselfDoNotDiffer) {
  const FakeModel model = noisy_model(0.0);
  for (const Protocol protocol : kProtocols) {
    const auto result =
        compare_with_reference(model, model, random_text(60), {.protocol = protocol, .context = 8, .stride = 3});
    EXPECT_EQ(result.kl_mean, 0.0);
    EXPECT_EQ(result.kl_max, 0.0);
    EXPECT_EQ(result.top1_agreement, 1.0);
    EXPECT_EQ(result.perplexity_ratio, 1.0);
    EXPECT_EQ(result.perplexity_ratio_stderr, 0.0);
  }
}

TEST(CompareWithReference, PerplexitiesAreThoseOfPerplexity) {
  const FakeModel model = noisy_model(0.3), reference = noisy_model(0.0);
  const auto text = random_text(120);
  for (const Protocol protocol : kProtocols) {
    for (const Average average : {Average::kWindows, Average::kTokens}) {
      const PerplexityOptions options{.protocol = protocol, .context = 16, .stride = 5, .average = average};
      const auto result = compare_with_reference(model, reference, text, options);
      EXPECT_EQ(result.model.perplexity, perplexity(model, text, options).perplexity);
      // The reference's logarithm of sums is made by the other half of the kernel: the same to rounding.
      EXPECT_TRUE(near(result.reference.perplexity, perplexity(reference, text, options).perplexity, {.rel = 1e-14}));
    }
  }
}

TEST(CompareWithReference, AgreesWithPlainLoops) {
  const FakeModel model = noisy_model(0.4), reference = noisy_model(0.0);
  const auto text = random_text(97);
  const auto result = compare_with_reference(model, reference, text, {.protocol = Protocol::kBlocks, .context = 12});
  std::vector<double> divergences, block_differences, block_kls;
  std::size_t agreeing = 0;
  for (std::size_t begin = 0; begin + 12 <= text.size(); begin += 12) {
    double difference = 0.0, block_kl = 0.0;
    for (std::size_t length = 1; length < 12; ++length) {
      const auto prefix = std::span(text).subspan(begin, length);
      const auto p = logits_after(prefix, 0.0), q = logits_after(prefix, 0.4);
      double divergence = 0.0;
      for (std::size_t i = 0; i < kVocabulary; ++i) {
        const double log_p = static_cast<double>(p[i]) - log_sum(p), log_q = static_cast<double>(q[i]) - log_sum(q);
        divergence += std::exp(log_p) * (log_p - log_q);
      }
      divergences.push_back(divergence);
      block_kl += divergence / 11.0;
      const TokenId target = text[begin + length];
      difference += static_cast<double>(p[target]) - log_sum(p) - static_cast<double>(q[target]) + log_sum(q);
      agreeing += std::max_element(p.begin(), p.end()) - p.begin() == std::max_element(q.begin(), q.end()) - q.begin();
    }
    block_differences.push_back(difference / 11.0);
    block_kls.push_back(block_kl);
  }
  ASSERT_EQ(divergences.size(), result.model.tokens_scored);
  const auto n = static_cast<double>(divergences.size()), blocks = static_cast<double>(block_differences.size());
  double kl = 0.0, kl_squares = 0.0, difference = 0.0, squares = 0.0;
  for (const double divergence : divergences) kl += divergence / n;
  for (const double block : block_kls) kl_squares += (block - kl) * (block - kl);
  for (const double block : block_differences) difference += block / blocks;
  for (const double block : block_differences) squares += (block - difference) * (block - difference);
  std::sort(divergences.begin(), divergences.end());

  // Sums of at most a hundred doubles of order one.
  constexpr test::Bound kRounding{.rel = 1e-12};
  EXPECT_TRUE(near(result.kl_mean, kl, kRounding));
  EXPECT_TRUE(near(result.kl_mean_stderr, std::sqrt(kl_squares / (blocks - 1.0) / blocks), kRounding));
  ASSERT_EQ(result.window_kl.size(), block_kls.size());
  for (std::size_t i = 0; i < block_kls.size(); ++i) EXPECT_TRUE(near(result.window_kl[i], block_kls[i], kRounding));
  ASSERT_EQ(divergences.size() % 2, 0u);
  EXPECT_TRUE(near(result.kl_median, (divergences[43] + divergences[44]) / 2.0, kRounding));
  EXPECT_TRUE(near(result.kl_99, divergences[86] + 0.13 * (divergences[87] - divergences[86]), kRounding));
  EXPECT_TRUE(near(result.kl_999, divergences[86] + 0.913 * (divergences[87] - divergences[86]), kRounding));
  EXPECT_TRUE(near(result.kl_max, divergences.back(), kRounding));
  EXPECT_EQ(result.top1_agreement, static_cast<double>(agreeing) / n);
  EXPECT_TRUE(near(result.perplexity_ratio, std::exp(difference), kRounding));
  EXPECT_TRUE(near(result.perplexity_ratio_stderr, std::exp(difference) * std::sqrt(squares / (blocks - 1.0) / blocks),
                   kRounding));
}

TEST(CompareWithReference, WindowsWeighAsTheirTokensDo) {
  const FakeModel model = noisy_model(0.4), reference = noisy_model(0.0);
  // Targets 1-15, 16-17, 18-19, 20: a long window and short ones.
  const auto text = random_text(21);
  const std::size_t ends[] = {16, 18, 20, 21};
  PerplexityOptions options{.protocol = Protocol::kSliding, .context = 16, .stride = 2, .average = Average::kTokens};
  const auto result = compare_with_reference(model, reference, text, options);
  std::vector<double> count, kl, difference;
  std::size_t target = 1;
  for (std::size_t window = 0; window < std::size(ends); ++window) {
    count.push_back(static_cast<double>(ends[window] - target));
    kl.push_back(0.0);
    difference.push_back(0.0);
    for (; target < ends[window]; ++target) {
      const auto prefix = std::span(text).subspan(2 * window, target - 2 * window);
      const auto p = logits_after(prefix, 0.0), q = logits_after(prefix, 0.4);
      for (std::size_t i = 0; i < kVocabulary; ++i) {
        const double log_p = static_cast<double>(p[i]) - log_sum(p), log_q = static_cast<double>(q[i]) - log_sum(q);
        kl.back() += std::exp(log_p) * (log_p - log_q) / count.back();
      }
      const double nll = log_sum(q) - static_cast<double>(q[text[target]]);
      difference.back() += (nll - log_sum(p) + static_cast<double>(p[text[target]])) / count.back();
    }
  }
  const auto estimate = [&](const std::vector<double>& means) {  // of the mean over all 20 targets
    double mean = 0.0, squares = 0.0;
    for (std::size_t w = 0; w < means.size(); ++w) mean += count[w] * means[w] / 20.0;
    for (std::size_t w = 0; w < means.size(); ++w) squares += std::pow(count[w] * (means[w] - mean), 2);
    return std::pair(mean, std::sqrt(squares / (20.0 * 20.0 - 15.0 * 15.0 - 2.0 * 2.0 - 2.0 * 2.0 - 1.0)));
  };
  constexpr test::Bound kRounding{.rel = 1e-12};  // sums of twenty doubles of order one
  EXPECT_TRUE(near(result.kl_mean, estimate(kl).first, kRounding));
  EXPECT_TRUE(near(result.kl_mean_stderr, estimate(kl).second, kRounding));
  const double ratio = std::exp(estimate(difference).first);
  EXPECT_TRUE(near(result.perplexity_ratio, ratio, kRounding));
  EXPECT_TRUE(near(result.perplexity_ratio_stderr, ratio * estimate(difference).second, kRounding));
  // The loss averaged over windows is another figure than the divergence, which is always that of all tokens.
  options.average = Average::kWindows;
  const auto by_windows = compare_with_reference(model, reference, text, options);
  EXPECT_EQ(by_windows.kl_mean_stderr, result.kl_mean_stderr);
  double mean = 0.0, squares = 0.0;
  for (const double window : difference) mean += window / 4.0;
  for (const double window : difference) squares += (window - mean) * (window - mean);
  EXPECT_TRUE(near(by_windows.perplexity_ratio_stderr, std::exp(mean) * std::sqrt(squares / 3.0 / 4.0), kRounding));
}

TEST(CompareWithReference, PairingMakesTheErrorOfTheRatioSmall) {
  const FakeModel model = noisy_model(0.05), reference = noisy_model(0.0);
  const auto result =
      compare_with_reference(model, reference, random_text(400), {.protocol = Protocol::kBlocks, .context = 20});
  EXPECT_LT(result.perplexity_ratio_stderr, 0.2 * result.model.perplexity_stderr / result.model.perplexity);
}

TEST(CompareWithReference, DependsNeitherOnBatchesNorOnThreads) {
  const FakeModel model = noisy_model(0.4), reference = noisy_model(0.0);
  const auto text = random_text(200);
  PerplexityOptions options{.context = 20, .stride = 7};
  options.batch_tokens = 1;
  set_thread_count(1);
  const auto expected = compare_with_reference(model, reference, text, options);
  for (const std::size_t threads : {1u, 4u}) {
    set_thread_count(threads);
    for (const std::size_t batch_tokens : {20u, 47u, 100'000u}) {
      options.batch_tokens = batch_tokens;
      const auto result = compare_with_reference(model, reference, text, options);
      EXPECT_EQ(result.kl_mean, expected.kl_mean);
      EXPECT_EQ(result.kl_999, expected.kl_999);
      EXPECT_EQ(result.perplexity_ratio, expected.perplexity_ratio);
    }
  }
  set_thread_count(0);
}

TEST(CompareWithReference, VocabulariesMustAgree) {
  const FakeModel model = noisy_model(0.0);
  const FakeModel other(7, [](auto) { return std::vector<float>(7); });
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { compare_with_reference(model, other, random_text(20), {.context = 4}); }, "11 tokens and 7"));
}

}  // namespace
}  // namespace nibble::eval

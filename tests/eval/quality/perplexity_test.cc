#include "eval/quality/perplexity.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numbers>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/random.h"
#include "eval/quality/text_quality.h"
#include "tests/eval/quality/fake_model.h"
#include "tests/model/tokenizer/tiny_tokenizer.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::eval {
namespace {

using datasets::Protocol;
using test::FakeModel;
using test::near;
using test::throws_with;

constexpr Protocol kProtocols[]{Protocol::kSliding, Protocol::kBlocks, Protocol::kHalf};

std::vector<TokenId> random_text(std::size_t size, std::size_t vocabulary, std::uint64_t seed) {
  Random random(seed);
  std::vector<TokenId> text(size);
  for (TokenId& token : text) token = static_cast<TokenId>(random.below(vocabulary));
  return text;
}

// Logits that depend on every token before the target.
FakeModel random_model(std::size_t vocabulary) {
  return {vocabulary, [vocabulary](std::span<const TokenId> prefix) {
            std::uint64_t seed = 17;
            for (const TokenId token : prefix) seed = Random(seed * 31 + token).next();
            Random random(seed);
            std::vector<float> logits(vocabulary);
            for (float& logit : logits) logit = static_cast<float>(2.0 * random.normal());
            return logits;
          }};
}

// A model whose token t costs exactly `nats[t]`, whatever comes before: logits are log probabilities plus a rest class.
FakeModel unigram_model(const std::vector<double>& nats) {
  double rest = 1.0;
  std::vector<float> logits;
  for (const double cost : nats) {
    logits.push_back(static_cast<float>(-cost));
    rest -= std::exp(-cost);
  }
  logits.push_back(static_cast<float>(std::log(rest)));
  return {logits.size(), [logits](std::span<const TokenId>) { return logits; }};
}

TEST(Perplexity, OfUniformLogitsIsTheVocabularySize) {
  for (const std::size_t vocabulary : {2u, 7u, 1000u}) {
    const FakeModel model(vocabulary, [=](auto) { return std::vector<float>(vocabulary, 0.75f); });
    const auto text = random_text(100, vocabulary, 1);
    for (const Protocol protocol : kProtocols) {
      const auto result = perplexity(model, text, {.protocol = protocol, .context = 16, .stride = 5});
      // One rounding in the logarithm, one in the exponential, and sums of equal numbers.
      EXPECT_TRUE(near(result.perplexity, static_cast<double>(vocabulary), {.rel = 1e-12}));
      EXPECT_TRUE(near(result.nll_nats_per_token, std::log(static_cast<double>(vocabulary)), {.rel = 1e-12}));
      EXPECT_LT(result.perplexity_stderr, 1e-12 * static_cast<double>(vocabulary));
    }
  }
}

// Logits are rounded to float: costs near 1 are off by up to 6e-8 each.
constexpr test::Bound kLogitRounding{.abs = 0.0, .rel = 2e-7};

TEST(Perplexity, SlidingIsTheMeanOfWindowMeansUnlessTokensAreAskedFor) {
  // Costs 1, 2, 3 nats. Windows of 4, stride 2, 7 tokens: targets 1-3, 4-5, 6.
  const FakeModel model = unigram_model({1.0, 2.0, 3.0});
  const std::vector<TokenId> text{0, 0, 1, 2, 0, 0, 2};
  const double means[] = {(1.0 + 2.0 + 3.0) / 3.0, 1.0, 3.0};  // of the windows
  const PerplexityOptions options{.protocol = Protocol::kSliding, .context = 4, .stride = 2};

  const auto by_windows = perplexity(model, text, options);
  EXPECT_EQ(by_windows.windows, 3u);
  EXPECT_EQ(by_windows.tokens_scored, 6u);
  EXPECT_EQ(by_windows.tokens_run, 4u + 4u + 3u);
  EXPECT_TRUE(test::all_near(by_windows.window_nll, means, kLogitRounding));
  EXPECT_TRUE(near(by_windows.nll_nats_per_token, 2.0, kLogitRounding));
  EXPECT_TRUE(near(by_windows.perplexity, std::exp(2.0), kLogitRounding));
  // sd of {2, 1, 3} is 1, over √3 windows.
  EXPECT_TRUE(near(by_windows.perplexity_stderr, std::exp(2.0) / std::sqrt(3.0), {.rel = 1e-6}));

  PerplexityOptions token_options = options;
  token_options.average = Average::kTokens;
  const auto by_tokens = perplexity(model, text, token_options);
  EXPECT_TRUE(near(by_tokens.nll_nats_per_token, 11.0 / 6.0, kLogitRounding));
  // Σ n² (m − 11/6)² = 9/36 + 4 · 25/36 + 49/36 for n = 3, 2, 1, over 6² − 14.
  EXPECT_TRUE(near(by_tokens.perplexity_stderr, std::exp(11.0 / 6.0) * std::sqrt(158.0 / 36.0 / 22.0), {.rel = 1e-6}));
}

TEST(Perplexity, BlocksIsTheMeanOfBlockMeans) {
  const FakeModel model = unigram_model({1.0, 2.0, 3.0});
  const std::vector<TokenId> text{2, 0, 1, 2, 2, 2, 1};  // blocks {2, 0, 1}, {2, 2, 2}; the tail is dropped
  const auto result = perplexity(model, text, {.protocol = Protocol::kBlocks, .context = 3});
  const double means[] = {1.5, 3.0};
  EXPECT_TRUE(test::all_near(result.window_nll, means, kLogitRounding));
  EXPECT_TRUE(near(result.nll_nats_per_token, 2.25, kLogitRounding));
  EXPECT_EQ(result.tokens_scored, 4u);
  // sd of {1.5, 3} is 1.5 / √2, over √2 blocks.
  EXPECT_TRUE(near(result.perplexity_stderr, std::exp(2.25) * 0.75, {.rel = 1e-6}));
}

TEST(Perplexity, HalfIsTheMeanOfAllScoredTokens) {
  const FakeModel model = unigram_model({1.0, 2.0, 3.0});
  // Blocks of 6: the predictions at positions 3 and 4, of tokens 4 and 5.
  const std::vector<TokenId> text{2, 2, 2, 2, 0, 1, 2, 2, 2, 2, 2, 2, 0};
  const auto result = perplexity(model, text, {.protocol = Protocol::kHalf, .context = 6});
  EXPECT_EQ(result.tokens_scored, 4u);
  EXPECT_TRUE(near(result.nll_nats_per_token, 9.0 / 4.0, kLogitRounding));  // costs 1, 2, 3, 3
  const double variance = (1.0 + 4.0 + 9.0 + 9.0 - 81.0 / 4.0) / 3.0;       // of the sample
  EXPECT_TRUE(near(result.perplexity_stderr, std::exp(2.25) * std::sqrt(variance / 3.0), {.rel = 1e-6}));
}

TEST(Perplexity, BosStandsInPlaceOfEachWindowsFirstToken) {
  const std::vector<TokenId> text{5, 1, 2, 3, 6, 1, 2, 3};
  std::vector<TokenId> first_tokens;
  const FakeModel model(9, [&](std::span<const TokenId> prefix) {
    first_tokens.push_back(prefix.front());
    return std::vector<float>(9, 0.0f);
  });
  for (const Protocol protocol : {Protocol::kHalf, Protocol::kBlocks, Protocol::kSliding}) {
    first_tokens.clear();
    perplexity(model, text, {.protocol = protocol, .context = 4, .bos = 8});
    EXPECT_THAT(first_tokens, testing::Each(8u));
    EXPECT_FALSE(first_tokens.empty());
  }
  first_tokens.clear();
  perplexity(model, text, {.protocol = Protocol::kBlocks, .context = 4});
  EXPECT_THAT(first_tokens, testing::ElementsAre(5, 5, 5, 6, 6, 6));
}

TEST(Perplexity, WindowsBeginWithTheBosOfHalfUnaskedAndOfOthersWhereItIsWanted) {
  const test::TempDir dir;
  const auto tokenizer = [&](bool adds) {
    test::write_file(dir / "tokenizer.json", model::test::llama2_json().dump());
    test::write_file(dir / "tokenizer_config.json",
                     nlohmann::json{{"add_bos_token", adds}, {"bos_token", "<s>"}}.dump());
    return model::Tokenizer::open(dir.path());
  };
  const auto with = tokenizer(true), without = tokenizer(false);
  using Bos = std::optional<TokenId>;
  EXPECT_EQ(window_bos(Protocol::kHalf, false, with.get()), Bos(1));
  EXPECT_EQ(window_bos(Protocol::kHalf, false, without.get()), Bos());
  EXPECT_EQ(window_bos(Protocol::kHalf, false, nullptr), Bos());
  for (const Protocol protocol : {Protocol::kBlocks, Protocol::kSliding}) {
    EXPECT_EQ(window_bos(protocol, false, with.get()), Bos());
    EXPECT_EQ(window_bos(protocol, true, with.get()), Bos(1));
    const auto refused = [&](const model::Tokenizer* one, const char* why) {
      return throws_with<InvalidArgument>([&] { (void)window_bos(protocol, true, one); }, why);
    };
    EXPECT_TRUE(refused(without.get(), "the model's puts nothing there"));
    EXPECT_TRUE(refused(nullptr, "there is none"));
  }
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { (void)window_bos(Protocol::kHalf, true, with.get()); }, "unasked"));
}

TEST(Perplexity, BitsPerByteCountTheBytesOfScoredTokensOnly) {
  const FakeModel model = unigram_model({1.0, 2.0, 3.0});
  const std::vector<TokenId> text{2, 0, 1, 2, 2, 2};
  PerplexityOptions options{.protocol = Protocol::kBlocks, .context = 3};
  EXPECT_TRUE(std::isnan(perplexity(model, text, options).bits_per_byte));
  options.byte_length = [](TokenId token) { return std::size_t{10} + token; };
  // Scored: 0, 1, 2, 2.
  EXPECT_TRUE(near(perplexity(model, text, options).bits_per_byte, 9.0 / std::numbers::ln2 / (10 + 11 + 12 + 12),
                   kLogitRounding));
  options.byte_length = [](TokenId) { return std::size_t{0}; };
  EXPECT_TRUE(std::isnan(perplexity(model, text, options).bits_per_byte));
}

TEST(Perplexity, OfSeveralTextsIsThatOfTheirWindowsTogether) {
  const FakeModel model = random_model(11);
  const auto text = random_text(150, 11, 5);
  for (const Protocol protocol : kProtocols) {
    PerplexityOptions options{.protocol = protocol, .context = 16, .stride = 8};
    std::vector<double> windows;
    std::uint64_t scored = 0;
    double total = 0.0;
    for (const auto& [begin, end] : {std::pair<std::size_t, std::size_t>{0, 70}, {70, 150}}) {
      const auto alone = perplexity(model, std::span(text).subspan(begin, end - begin), options);
      windows.insert(windows.end(), alone.window_nll.begin(), alone.window_nll.end());
      scored += alone.tokens_scored;
      total += alone.nll_nats_per_token * static_cast<double>(alone.tokens_scored);
    }
    options.text_ends = {70, 150};
    options.average = Average::kTokens;
    const auto together = perplexity(model, text, options);
    EXPECT_TRUE(test::same_bits(together.window_nll, windows)) << datasets::protocol_name(protocol);
    EXPECT_EQ(together.tokens_scored, scored);
    // The means of `sliding` and `blocks` alone are over windows, of which the last of sliding is shorter.
    if (protocol == Protocol::kHalf) {
      EXPECT_TRUE(near(together.nll_nats_per_token, total / static_cast<double>(scored), {.rel = 1e-13}));
    }
  }
  for (const auto& ends : {std::vector<std::size_t>{70, 70, 150}, {70, 151}, {70, 149}})
    EXPECT_TRUE(throws_with<InvalidArgument>(
        [&] { perplexity(model, text, {.protocol = Protocol::kBlocks, .context = 16, .text_ends = ends}); }, "150"));
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [&] {
        perplexity(model, text, {.protocol = Protocol::kBlocks, .context = 16, .text_ends = {145, 150}});
      },
      "text 2 of 2: 'blocks' needs at least one whole block of 16 tokens, the text has 5"));
}

TEST(Perplexity, AgreesWithPlainLoopsOverTheWindows) {
  const std::size_t vocabulary = 11;
  const FakeModel model = random_model(vocabulary);
  const auto text = random_text(53, vocabulary, 2);
  for (const Protocol protocol : kProtocols) {
    std::vector<double> means;
    for (const auto& window : datasets::evaluation_windows(protocol, text.size(), 8, 3)) {
      double sum = 0.0;
      for (std::size_t target = window.first_target; target < window.last_target; ++target) {
        Matrix<float> row(1, vocabulary);
        const std::size_t starts[] = {0, target - window.begin}, last[] = {target - window.begin - 1};
        const auto prefix = std::span(text).subspan(window.begin, target - window.begin);
        model.forward(
            {prefix, starts}, last,
            [&](auto, MatrixView<const float> logits) { std::copy_n(logits.data(), vocabulary, row.data()); }, {},
            nullptr);
        double total = 0.0;
        for (const float logit : row.values()) total += std::exp(static_cast<double>(logit));
        sum += std::log(total) - static_cast<double>(row(0, text[target]));
      }
      means.push_back(sum / static_cast<double>(window.last_target - window.first_target));
    }
    const auto result = perplexity(model, text, {.protocol = protocol, .context = 8, .stride = 3});
    // Both are sums of a few doubles of order one.
    EXPECT_TRUE(test::all_near(result.window_nll, means, {.abs = 1e-13}));
  }
}

TEST(Perplexity, DependsNeitherOnBatchesNorOnThreads) {
  const FakeModel model = random_model(13);
  const auto text = random_text(200, 13, 3);
  for (const Protocol protocol : kProtocols) {
    PerplexityOptions options{.protocol = protocol, .context = 20, .stride = 7};
    options.batch_tokens = 1;
    set_thread_count(1);
    const auto expected = perplexity(model, text, options);
    for (const std::size_t threads : {1u, 4u}) {
      set_thread_count(threads);
      for (const std::size_t batch_tokens : {20u, 47u, 100'000u}) {
        options.batch_tokens = batch_tokens;
        const auto result = perplexity(model, text, options);
        EXPECT_TRUE(test::same_bits(result.window_nll, expected.window_nll));
        EXPECT_EQ(result.perplexity, expected.perplexity);
        EXPECT_EQ(result.perplexity_stderr, expected.perplexity_stderr);
      }
    }
    set_thread_count(0);
  }
}

TEST(Perplexity, WindowsAreRunTogether) {
  const FakeModel model = random_model(5);
  const auto text = random_text(80, 5, 4);
  perplexity(model, text, {.protocol = Protocol::kBlocks, .context = 10, .batch_tokens = 40});
  EXPECT_EQ(model.forward_calls(), 2u);
}

TEST(Perplexity, ContextDefaultsToTheModelsPositionsAndStrideToHalfOfIt) {
  FakeModel model = random_model(5);
  model.mutable_config().max_positions = 8;
  const auto text = random_text(20, 5, 5);
  const auto result = perplexity(model, text, {});
  EXPECT_EQ(result.windows, 4u);  // 0-8, 4-12, 8-16, 12-20
  EXPECT_EQ(result.tokens_run, 32u);
}

TEST(Perplexity, OfOneWindowHasNoStandardError) {
  const FakeModel model = random_model(5);
  const auto result = perplexity(model, random_text(8, 5, 6), {.protocol = Protocol::kBlocks, .context = 8});
  EXPECT_TRUE(std::isnan(result.perplexity_stderr));
  EXPECT_TRUE(std::isfinite(result.perplexity));
}

TEST(Perplexity, ProgressEndsAtTheTokensRun) {
  const FakeModel model = random_model(5);
  std::vector<double> done;
  double total = 0.0;
  PerplexityOptions options{.protocol = Protocol::kBlocks, .context = 10, .batch_tokens = 20};
  options.progress = [&](const ProgressUpdate& update) {
    EXPECT_EQ(update.stage, "perplexity");
    EXPECT_EQ(update.unit, "tokens");
    done.push_back(update.done);
    total = update.total;
  };
  perplexity(model, random_text(55, 5, 7), options);
  EXPECT_THAT(done, testing::ElementsAre(20.0, 40.0, 50.0));
  EXPECT_EQ(total, 50.0);
}

TEST(Perplexity, IdsOutsideTheVocabularyAreNamed) {
  const FakeModel model = random_model(5);
  const std::vector<TokenId> text{0, 1, 5, 2};
  EXPECT_TRUE(
      throws_with<InvalidArgument>([&] { perplexity(model, text, {.context = 4}); }, "id 5", "index 2", "of 5"));
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [&] { perplexity(model, std::span(text).first(2), {.context = 2, .bos = 5}); }, "BOS id 5", "of 5"));
}

TEST(Perplexity, TooShortTextsAreRefused) {
  const FakeModel model = random_model(5);
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [&] { perplexity(model, random_text(7, 5, 8), {.protocol = Protocol::kBlocks, .context = 8}); }, "block of 8"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { perplexity(model, {}, {.context = 8}); }, "at least 2"));
}

TEST(Perplexity, NegativeLogLikelihoodChecksItsTarget) {
  const std::vector<float> logits{0.0f, 0.0f, 0.0f, 0.0f};
  EXPECT_EQ(negative_log_likelihood(logits, 3), std::log(4.0));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { negative_log_likelihood(logits, 4); }, "target 4 of 4"));
}

}  // namespace
}  // namespace nibble::eval

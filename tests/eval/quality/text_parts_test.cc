#include "eval/quality/text_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "core/random.h"
#include "tests/eval/quality/fake_model.h"
#include "tests/support/compare.h"

namespace nibble::eval {
namespace {

using datasets::Protocol;
using test::FakeModel;

constexpr std::size_t kIds = 11;

// Logits that depend on the last token and on `seed`.
FakeModel seeded_model(std::uint64_t seed) {
  return FakeModel(kIds, [seed](std::span<const TokenId> prefix) {
    Random random(seed * kIds + prefix.back());
    std::vector<float> logits(kIds);
    std::ranges::generate(logits, [&] { return static_cast<float>(random.normal()); });
    return logits;
  });
}

// What each text has by itself, whatever is averaged.
TEST(TextParts, AreWhatEachTextHasAlone) {
  const FakeModel model = seeded_model(1), reference = seeded_model(2);
  Random random(5);
  std::vector<TokenId> text(150);
  std::ranges::generate(text, [&] { return static_cast<TokenId>(random.below(kIds)); });
  for (const Protocol protocol : {Protocol::kSliding, Protocol::kBlocks, Protocol::kHalf}) {
    for (const Average average : {Average::kWindows, Average::kTokens}) {
      SCOPED_TRACE(datasets::protocol_name(protocol));
      PerplexityOptions options{.protocol = protocol, .context = 16, .stride = 8, .average = average};
      options.text_ends = {70, 150};
      const auto parts = text_parts(text_quality(model, &reference, text, nullptr, options), options, text.size(), 16);
      ASSERT_EQ(parts.size(), 2u);
      options.text_ends.clear();
      for (std::size_t i = 0; i < 2; ++i) {
        const auto part = i == 0 ? std::span(text).first(70) : std::span(text).subspan(70);
        const TextQuality alone = text_quality(model, &reference, part, nullptr, options);
        EXPECT_EQ(parts[i].tokens, part.size());
        EXPECT_EQ(parts[i].tokens_scored, alone.perplexity.tokens_scored);
        EXPECT_EQ(parts[i].windows, alone.perplexity.windows);
        EXPECT_TRUE(test::near(parts[i].nll.mean, alone.perplexity.nll_nats_per_token, {.rel = 1e-13}));
        ASSERT_TRUE(parts[i].kl);
        EXPECT_TRUE(test::near(parts[i].kl->mean, alone.comparison->kl_mean, {.rel = 1e-12}));
        EXPECT_TRUE(test::near(parts[i].kl->standard_error, alone.comparison->kl_mean_stderr, {.rel = 1e-12}));
        if (protocol != Protocol::kHalf) {  // whose error is one of tokens
          EXPECT_TRUE(test::near(parts[i].nll.standard_error * alone.perplexity.perplexity,
                                 alone.perplexity.perplexity_stderr, {.rel = 1e-12}));
        }
        const auto same = text_parts(alone, options, part.size(), 16);
        ASSERT_EQ(same.size(), 1u);
        EXPECT_EQ(same[0].nll.mean, parts[i].nll.mean);
      }
      options.text_ends = {70, 150};
      EXPECT_FALSE(text_parts(text_quality(model, nullptr, text, nullptr, options), options, text.size(), 16)[0].kl);
    }
  }
}

}  // namespace
}  // namespace nibble::eval

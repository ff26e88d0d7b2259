#include "datasets/eval_windows.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "core/error.h"
#include "tests/support/throws.h"

namespace nibble::datasets {
namespace {

using test::throws_with;

std::vector<std::vector<std::size_t>> rows(const std::vector<Window>& windows) {
  std::vector<std::vector<std::size_t>> result;
  for (const Window& w : windows) result.push_back({w.begin, w.end, w.first_target, w.last_target});
  return result;
}
using Rows = std::vector<std::vector<std::size_t>>;

TEST(EvalWindows, SlidingScoresEveryTargetOnce) {
  EXPECT_EQ(rows(evaluation_windows(Protocol::kSliding, 10, 4, 2)),
            (Rows{{0, 4, 1, 4}, {2, 6, 4, 6}, {4, 8, 6, 8}, {6, 10, 8, 10}}));
  EXPECT_EQ(rows(evaluation_windows(Protocol::kSliding, 9, 4, 2)),
            (Rows{{0, 4, 1, 4}, {2, 6, 4, 6}, {4, 8, 6, 8}, {6, 9, 8, 9}}));
  EXPECT_EQ(rows(evaluation_windows(Protocol::kSliding, 3, 8, 4)), (Rows{{0, 3, 1, 3}}));
}

TEST(EvalWindows, SlidingByAWholeContextLeavesFirstTokensUnscored) {
  EXPECT_EQ(rows(evaluation_windows(Protocol::kSliding, 6, 4, 4)), (Rows{{0, 4, 1, 4}, {4, 6, 5, 6}}));
  // A last window of one token has nothing to score.
  EXPECT_EQ(rows(evaluation_windows(Protocol::kSliding, 5, 4, 4)), (Rows{{0, 4, 1, 4}}));
}

TEST(EvalWindows, BlocksDropTheTail) {
  EXPECT_EQ(rows(evaluation_windows(Protocol::kBlocks, 11, 4, 0)), (Rows{{0, 4, 1, 4}, {4, 8, 5, 8}}));
  EXPECT_EQ(rows(evaluation_windows(Protocol::kBlocks, 8, 4, 0)), (Rows{{0, 4, 1, 4}, {4, 8, 5, 8}}));
}

TEST(EvalWindows, HalfScoresThePredictionsOfTheSecondHalf) {
  // Predictions at positions n/2 … n-2 are of the tokens n/2+1 … n-1.
  EXPECT_EQ(rows(evaluation_windows(Protocol::kHalf, 17, 8, 0)), (Rows{{0, 8, 5, 8}, {8, 16, 13, 16}}));
  EXPECT_EQ(rows(evaluation_windows(Protocol::kHalf, 5, 5, 0)), (Rows{{0, 5, 3, 5}}));
  const auto windows = evaluation_windows(Protocol::kHalf, 512, 512, 0);
  EXPECT_EQ(windows.front().last_target - windows.front().first_target, 255u);
}

TEST(EvalWindows, WikiTextUnderGpt2HasThePublishedWindows) {
  const auto windows = evaluation_windows(Protocol::kSliding, 287'644, 1024, 512);
  ASSERT_EQ(windows.size(), 561u);
  std::size_t targets = 0;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const std::size_t count = windows[i].last_target - windows[i].first_target;
    EXPECT_EQ(count, i == 0 ? 1023u : i == 560 ? 412u : 512u) << i;
    targets += count;
  }
  EXPECT_EQ(targets, 287'643u);
}

// The Hugging Face recipe, as its loop is written: targets are labels, the first label of a window is dropped.
std::vector<Window> sliding_by_the_recipe(std::size_t tokens, std::size_t context, std::size_t stride) {
  std::vector<Window> windows;
  std::size_t previous_end = 0;
  for (std::size_t begin = 0; begin < tokens; begin += stride) {
    const std::size_t end = std::min(begin + context, tokens);
    Window window{begin, end, 0, 0};
    for (std::size_t position = begin + 1; position < end; ++position) {
      if (position < previous_end) continue;
      if (window.last_target == 0) window.first_target = position;
      window.last_target = position + 1;
    }
    if (window.last_target != 0) windows.push_back(window);
    previous_end = end;
    if (end == tokens) break;
  }
  return windows;
}

TEST(EvalWindows, SlidingAgreesWithTheRecipeAtEverySmallSize) {
  for (std::size_t tokens = 2; tokens < 40; ++tokens)
    for (std::size_t context = 2; context < 12; ++context)
      for (std::size_t stride = 1; stride <= context; ++stride)
        ASSERT_EQ(rows(evaluation_windows(Protocol::kSliding, tokens, context, stride)),
                  rows(sliding_by_the_recipe(tokens, context, stride)))
            << tokens << " tokens, context " << context << ", stride " << stride;
}

TEST(EvalWindows, BlocksAndHalfAgreeWithPlainLoopsAtEverySmallSize) {
  for (std::size_t context = 3; context < 12; ++context) {
    for (std::size_t tokens = context; tokens < 40; ++tokens) {
      Rows blocks, half;
      for (std::size_t block = 0; block < tokens / context; ++block) {
        const std::size_t begin = block * context, end = begin + context;
        blocks.push_back({begin, end, begin + 1, end});
        half.push_back({begin, end, begin + context / 2 + 1, end});
      }
      ASSERT_EQ(rows(evaluation_windows(Protocol::kBlocks, tokens, context, 1)), blocks);
      ASSERT_EQ(rows(evaluation_windows(Protocol::kHalf, tokens, context, 1)), half);
    }
  }
}

TEST(EvalWindows, ImpossibleSettingsAreRefused) {
  const auto windows = [](Protocol protocol, std::size_t tokens, std::size_t context, std::size_t stride) {
    return [=] { evaluation_windows(protocol, tokens, context, stride); };
  };
  EXPECT_TRUE(throws_with<InvalidArgument>(windows(Protocol::kSliding, 9, 1, 1), "sliding", "context", "got 1"));
  EXPECT_TRUE(throws_with<InvalidArgument>(windows(Protocol::kBlocks, 9, 0, 1), "blocks", "context", "got 0"));
  EXPECT_TRUE(throws_with<InvalidArgument>(windows(Protocol::kSliding, 9, 4, 0), "stride", "got 0"));
  EXPECT_TRUE(throws_with<InvalidArgument>(windows(Protocol::kSliding, 9, 4, 5), "stride", "of 4", "got 5"));
  EXPECT_TRUE(throws_with<InvalidArgument>(windows(Protocol::kSliding, 1, 4, 2), "at least 2", "got 1"));
  EXPECT_TRUE(throws_with<InvalidArgument>(windows(Protocol::kBlocks, 7, 8, 0), "block of 8", "has 7"));
  EXPECT_TRUE(throws_with<InvalidArgument>(windows(Protocol::kHalf, 0, 8, 0), "block of 8", "has 0"));
  EXPECT_TRUE(throws_with<InvalidArgument>(windows(Protocol::kHalf, 9, 2, 0), "half", "scores nothing"));
}

TEST(EvalWindows, ProtocolsAreNamed) {
  for (const Protocol protocol : {Protocol::kSliding, Protocol::kBlocks, Protocol::kHalf})
    EXPECT_EQ(protocol_from_name(protocol_name(protocol)), protocol);
  EXPECT_TRUE(throws_with<InvalidArgument>([] { protocol_from_name("slidng"); }, "slidng", "did you mean 'sliding'"));
}

}  // namespace
}  // namespace nibble::datasets

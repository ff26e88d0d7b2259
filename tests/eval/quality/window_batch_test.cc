#include "eval/quality/window_batch.h"

#include <gmock/gmock.h>

#include "tests/eval/quality/fake_model.h"

namespace nibble::eval {
namespace {

using datasets::Window;
using testing::ElementsAre;

std::vector<std::size_t> group_sizes(const std::vector<Window>& windows, std::size_t batch_tokens) {
  std::vector<std::size_t> sizes;
  for (const auto group : group_windows(windows, batch_tokens)) sizes.push_back(group.size());
  return sizes;
}

TEST(WindowBatch, WindowsAreGroupedUpToTheTokensAskedFor) {
  const std::vector<Window> windows{{0, 4, 1, 4}, {2, 6, 4, 6}, {4, 8, 6, 8}, {6, 7, 6, 7}};
  EXPECT_THAT(group_sizes(windows, 8), ElementsAre(2, 2));
  EXPECT_THAT(group_sizes(windows, 12), ElementsAre(3, 1));
  EXPECT_THAT(group_sizes(windows, 13), ElementsAre(4));
  EXPECT_THAT(group_sizes(windows, 0), ElementsAre(1, 1, 1, 1)) << "at least one window at a time";
  EXPECT_THAT(group_sizes({}, 8), ElementsAre());
}

TEST(WindowBatch, OnlyRowsThatPredictATargetGetLogits) {
  const std::vector<TokenId> text{10, 11, 12, 13, 14, 15, 16};
  const std::vector<Window> windows{{0, 4, 1, 4}, {2, 6, 4, 6}};
  const WindowBatch batch = make_window_batch(text, windows, std::nullopt);
  EXPECT_THAT(batch.tokens, ElementsAre(10, 11, 12, 13, 12, 13, 14, 15));
  EXPECT_THAT(batch.starts, ElementsAre(0, 4, 8));
  EXPECT_THAT(batch.logit_rows, ElementsAre(0, 1, 2, 5, 6));
  EXPECT_THAT(batch.targets, ElementsAre(11, 12, 13, 14, 15));
}

TEST(WindowBatch, BosTakesThePlaceOfEachFirstToken) {
  const std::vector<TokenId> text{10, 11, 12, 13};
  const std::vector<Window> windows{{0, 2, 1, 2}, {2, 4, 3, 4}};
  const WindowBatch batch = make_window_batch(text, windows, 1);
  EXPECT_THAT(batch.tokens, ElementsAre(1, 11, 1, 13));
  EXPECT_THAT(batch.targets, ElementsAre(11, 13));
}

TEST(WindowBatch, VisitedLogitsSayWhichTargetsTheyPredict) {
  // Logit 0 is the token itself, logit 1 its position in the window.
  const test::FakeModel model(2, [](std::span<const TokenId> prefix) {
    return std::vector<float>{static_cast<float>(prefix.back()), static_cast<float>(prefix.size() - 1)};
  });
  std::vector<TokenId> text(20);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<TokenId>(100 + i);
  const std::vector<Window> windows{{0, 8, 1, 8}, {4, 12, 8, 12}, {8, 16, 12, 16}};
  const WindowBatch batch = make_window_batch(text, windows, std::nullopt);
  std::size_t next = 0;
  visit_scored_logits(model, batch, {}, [&](std::size_t first, MatrixView<const float> logits) {
    EXPECT_EQ(first, next);
    next += logits.rows();
    for (std::size_t row = 0; row < logits.rows(); ++row) {
      EXPECT_EQ(logits(row, 0) + 1.0f, static_cast<float>(batch.targets[first + row]));
      EXPECT_EQ(logits(row, 1), static_cast<float>(batch.logit_rows[first + row] % 8));
    }
  });
  EXPECT_EQ(next, batch.targets.size());
}

}  // namespace
}  // namespace nibble::eval

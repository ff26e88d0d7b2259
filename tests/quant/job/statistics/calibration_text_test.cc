#include "quant/job/statistics/calibration_text.h"

#include <gtest/gtest.h>

#include <numeric>

namespace nibble::quant {
namespace {

// Windows of 40 tokens that begin at these positions of a text in which no token comes twice.
CalibrationText slices(const std::vector<TokenId>& starts) {
  CalibrationText text{.tokens = {}, .window_tokens = 40, .fingerprint = ""};
  for (const TokenId start : starts) {
    text.tokens.resize(text.tokens.size() + 40);
    std::iota(text.tokens.end() - 40, text.tokens.end(), start);
  }
  return text;
}

double share(const std::vector<TokenId>& starts, const std::vector<std::size_t>& of,
             const std::vector<std::size_t>& in) {
  return repeated_share(slices(starts), of, in);
}

TEST(RepeatedShare, CountsTokensOfRunsThatOtherWindowsHave) {
  EXPECT_EQ(share({0, 1000}, {1}, {0}), 0.0);
  EXPECT_EQ(share({0, 0}, {1}, {0}), 1.0);
  EXPECT_EQ(share({0, 20}, {1}, {0}), 20.0 / 40);
  EXPECT_EQ(share({0, 24}, {1}, {0}), 16.0 / 40);   // just a run
  EXPECT_EQ(share({0, 25}, {1}, {0}), 0.0);         // 15 tokens may be chance
  EXPECT_EQ(share({0, 40, 20}, {2}, {0, 1}), 1.0);  // each of its halves in another one
  EXPECT_EQ(share({0, 10, 20}, {2}, {0, 1}), 30.0 / 40) << "no token counts twice";
  EXPECT_EQ(share({0, 0, 500}, {1, 2}, {0}), 0.5);
}

TEST(RepeatedShare, RunsDoNotGoOnFromWindowToWindow) {
  // The second window begins where the first ends; the third has 8 tokens of each.
  EXPECT_EQ(share({0, 40, 32}, {2}, {0, 1}), 32.0 / 40);  // 32 of the second, not the 8 before them
}

TEST(RepeatedShare, IsNothingOfNoWindowsOrShortOnes) {
  EXPECT_EQ(share({0, 0}, {}, {0}), 0.0);
  EXPECT_EQ(share({0, 0}, {1}, {}), 0.0);
  const CalibrationText text{.tokens = std::vector<TokenId>(30, 7), .window_tokens = 15, .fingerprint = ""};
  const std::size_t of[] = {1}, in[] = {0};
  EXPECT_EQ(repeated_share(text, of, in), 0.0);
}

}  // namespace
}  // namespace nibble::quant

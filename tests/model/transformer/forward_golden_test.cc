#include <gtest/gtest.h>

#include "model/transformer/row_ops.h"
#include "tests/model/transformer/golden_files.h"
#include "tests/model/transformer/logits_of.h"
#include "tests/support/compare.h"

// Logits of an independent float32 implementation. 2e-5 relative RMSE is about a hundred roundings of the logits' own
// size, what two orders of summation over six layers differ by.

namespace nibble::test {
namespace {

using model::Attention;

class ForwardGolden : public testing::TestWithParam<GoldenModel> {};

std::vector<float> losses(const Matrix<float>& logits, std::span<const TokenId> ids) {
  std::vector<float> result;
  for (std::size_t r = 0; r + 1 < ids.size(); ++r) {
    const auto row = logits.row(r);
    result.push_back(
        static_cast<float>(model::log_sum_exp(row.data(), row.size()) - static_cast<double>(row[ids[r + 1]])));
  }
  return result;
}

TEST_P(ForwardGolden, LogitsAreThoseOfTheReferenceImplementation) {
  const GoldenModel golden = GetParam();
  if (const auto reason = golden.reason_to_skip()) GTEST_SKIP() << *reason;
  const LoadedModel loaded = load(golden.model_directory());
  const GoldenTensors expected(golden.golden("logits.safetensors"));

  for (const Attention attention : {Attention::kFused, Attention::kDecomposed}) {
    const auto short_ids = expected.ids("a.ids");
    const Matrix<float> short_logits = logits_of(*loaded.model, short_ids, {attention});
    EXPECT_TRUE(relative_error_within(short_logits.values(), expected.matrix("a.logits").values(), 2e-5));
    if (!expected.contains("b.ids")) continue;

    const auto long_ids = expected.ids("b.ids");
    const Matrix<float> logits = logits_of(*loaded.model, long_ids, {attention});
    const std::size_t last = (logits.rows() - 8) * logits.cols();
    EXPECT_TRUE(relative_error_within(std::span(logits.values()).subspan(last),
                                      expected.matrix("b.logits_last8").values(), 2e-5));
    // A loss is the difference of a logit and a sum of about the same size: absolute bound of that size's 2e-5.
    EXPECT_TRUE(all_near(losses(logits, long_ids), expected.matrix("b.nll").values(), {.abs = 2e-4, .rel = 2e-5}));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ForwardGolden, testing::ValuesIn(kGoldenModels), golden_test_name);

}  // namespace
}  // namespace nibble::test

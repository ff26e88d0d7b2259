#include <gtest/gtest.h>

#include "core/text/json.h"
#include "core/text/strict_json.h"
#include "model/transformer/sampling.h"
#include "tests/model/transformer/golden_files.h"
#include "tests/support/files.h"

namespace nibble::test {
namespace {

class GenerateGolden : public testing::TestWithParam<GoldenModel> {};

TEST_P(GenerateGolden, GreedyIdsAreThoseOfTheReferenceImplementation) {
  const GoldenModel golden = GetParam();
  if (const auto reason = golden.reason_to_skip()) GTEST_SKIP() << *reason;
  LoadedModel loaded = load(golden.model_directory());
  const auto expected = parse_strict_json(read_file(golden.golden("greedy.json")), "greedy.json");
  const auto ids = expected.at("greedy_ids").get<std::vector<TokenId>>();
  const auto prompt = expected.at("prompt_ids").get<std::vector<TokenId>>();
  for (const auto attention : {model::Attention::kFused, model::Attention::kDecomposed})
    EXPECT_EQ(model::generate(*loaded.model, prompt, {.max_tokens = ids.size(), .forward = {attention}}), ids);
  for (const auto kind : {model::CacheKind::kNone, model::CacheKind::kIo, model::CacheKind::kWindow})
    EXPECT_EQ(model::generate(*loaded.model, prompt, {.max_tokens = ids.size(), .cache = {.kind = kind}}), ids);
}

INSTANTIATE_TEST_SUITE_P(Models, GenerateGolden, testing::ValuesIn(kGoldenModels), golden_test_name);

}  // namespace
}  // namespace nibble::test

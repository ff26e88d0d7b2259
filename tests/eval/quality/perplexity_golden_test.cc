#include "tests/eval/quality/golden_perplexity.h"
#include "tests/support/sanitizers.h"

namespace nibble::eval {
namespace {

void check(const std::string& model) {
  if (test::kAddressSanitizer) GTEST_SKIP() << "slow there: the demo models go through all three";
  test::GoldenPerplexity golden(test::shared_path("models/" + model),
                                test::shared_path("golden/" + model + "/perplexity.json"),
                                test::shared_path("golden/tokens/Doyle_Lost_1912.u16"));
  golden.check_half();
  golden.check_sliding();
  golden.check_blocks();
}

TEST(PerplexityGolden, OfTheGpt2NovelsModel) {
  NIBBLE_NEEDS_SHARED("golden/gpt2-novels/perplexity.json");
  check("gpt2-novels");
}

TEST(PerplexityGolden, OfTheLlamaNovelsModel) {
  NIBBLE_NEEDS_SHARED("golden/llama-novels/perplexity.json");
  check("llama-novels");
}

}  // namespace
}  // namespace nibble::eval

#include "tests/eval/quality/golden_perplexity.h"

namespace nibble::eval {
namespace {

void check(const std::string& model) {
  test::expect_golden_perplexities(test::shared_path("models/" + model),
                                   test::shared_path("golden/" + model + "/perplexity.json"),
                                   test::shared_path("golden/tokens/Doyle_Lost_1912.u16"));
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

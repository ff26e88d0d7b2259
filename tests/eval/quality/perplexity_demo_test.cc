#include "core/machine/thread_pool.h"
#include "tests/eval/quality/golden_perplexity.h"

namespace nibble::eval {
namespace {

class PerplexityOfDemo : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path model() const { return test::source_path("datasets/demo/" + std::string(GetParam())); }
  std::filesystem::path tokens() const {
    return test::source_path("tests/data/golden/Doyle_Lost_1912.demo.first20000.u16");
  }
};

TEST_P(PerplexityOfDemo, IsWhatAnIndependentImplementationFound) {
  const auto expected = test::source_path("tests/data/golden/" + std::string(GetParam()) + "/perplexity.json");
  test::GoldenPerplexity golden(model(), expected, tokens());
  golden.check_sliding();
  golden.check_blocks();
  golden.check_half();
}

TEST_P(PerplexityOfDemo, DependsOnNoThreadsAndByRoundingAloneOnBatches) {
  const auto checkpoint = model::Checkpoint::open(model());
  const auto architecture = checkpoint->architecture();
  const auto network = model::make_model(architecture, *model::make_float_provider(checkpoint));
  const std::vector<TokenId> text = datasets::read_token_file(tokens(), architecture.vocabulary, 1500);

  PerplexityOptions options{.protocol = datasets::Protocol::kSliding, .context = 256, .stride = 100};
  std::vector<double> expected;
  for (const std::size_t batch_tokens : {1u, 600u, 2048u}) {
    options.batch_tokens = batch_tokens;
    set_thread_count(1);
    const auto alone = perplexity(*network, text, options).window_nll;
    set_thread_count(3);
    EXPECT_TRUE(test::same_bits(perplexity(*network, text, options).window_nll, alone)) << batch_tokens;
    if (expected.empty()) expected = alone;
    // A float32 sum in another order, averaged over a window's tokens.
    EXPECT_TRUE(test::all_near(alone, expected, {.rel = 1e-6})) << batch_tokens;
  }
  set_thread_count(0);
}

INSTANTIATE_TEST_SUITE_P(, PerplexityOfDemo, testing::Values("gpt2-demo", "llama-demo"),
                         [](const auto& model) { return model.param[0] == 'g' ? "Gpt2" : "Llama"; });

}  // namespace
}  // namespace nibble::eval

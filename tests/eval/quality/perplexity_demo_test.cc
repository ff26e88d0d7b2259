#include "core/machine/thread_pool.h"
#include "core/matrix/gemm.h"
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

// Bits, where rows of a product stand alone; else a float32 sum in another order, averaged over a window's tokens.
testing::AssertionResult the_same(const std::vector<double>& a, const std::vector<double>& b) {
  if (gemm_rows_stand_alone()) return test::same_bits(a, b);
  return test::all_near(a, b, {.rel = 1e-6});
}

TEST_P(PerplexityOfDemo, DependsNeitherOnBatchesNorOnThreads) {
  const auto checkpoint = model::Checkpoint::open(model());
  const auto architecture = checkpoint->architecture();
  const auto network = model::make_model(architecture, *model::make_float_provider(checkpoint));
  const std::vector<TokenId> text = datasets::read_token_file(tokens(), architecture.vocabulary, 1500);

  PerplexityOptions options{.protocol = datasets::Protocol::kSliding, .context = 256, .stride = 100};
  options.batch_tokens = 1;
  set_thread_count(1);
  const auto expected = perplexity(*network, text, options);
  for (const std::size_t threads : {1u, 3u}) {
    set_thread_count(threads);
    for (const std::size_t batch_tokens : {600u, 2048u}) {
      options.batch_tokens = batch_tokens;
      EXPECT_TRUE(the_same(perplexity(*network, text, options).window_nll, expected.window_nll))
          << threads << " threads, batches of " << batch_tokens;
    }
  }
  set_thread_count(0);
}

INSTANTIATE_TEST_SUITE_P(, PerplexityOfDemo, testing::Values("gpt2-demo", "llama-demo"),
                         [](const auto& model) { return model.param[0] == 'g' ? "Gpt2" : "Llama"; });

}  // namespace
}  // namespace nibble::eval

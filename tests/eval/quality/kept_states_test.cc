#include "eval/quality/kept_states.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "datasets/token_file.h"
#include "eval/quality/reference_comparison.h"
#include "model/checkpoint/checkpoint.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::eval {
namespace {

using datasets::Protocol;
using test::same_bits;

struct Demo {
  std::shared_ptr<const model::Checkpoint> checkpoint;
  model::Architecture architecture;
  std::unique_ptr<model::Model> network;
  std::vector<TokenId> text;

  explicit Demo(const std::string& name)
      : checkpoint(model::Checkpoint::open(test::source_path("datasets/demo/" + name))),
        architecture(checkpoint->architecture()),
        network(model::make_model(architecture, *model::make_float_provider(checkpoint))),
        text(datasets::read_token_file(test::source_path("tests/data/golden/Doyle_Lost_1912.demo.first20000.u16"),
                                       architecture.vocabulary, 700)) {}
};

class KeptStates : public testing::TestWithParam<const char*> {
 protected:
  test::TempDir temp_;
  std::filesystem::path file_ = temp_ / "states.f32";
};

TEST_P(KeptStates, GiveTheSameLogitsToTheBit) {
  const Demo demo(GetParam());
  for (const Protocol protocol : {Protocol::kSliding, Protocol::kBlocks, Protocol::kHalf}) {
    PerplexityOptions options{.protocol = protocol, .context = 64};
    if (protocol != Protocol::kSliding) options.bos = 7;
    options.batch_tokens = 150;  // batches of several windows, and a last one that is shorter
    keep_states(*demo.network, demo.text, options, file_);
    EXPECT_EQ(std::filesystem::file_size(file_), kept_states_bytes(demo.architecture, demo.text, options));
    const LogitMaker kept = logits_of_kept_states(*demo.network, file_, demo.text, options);
    const auto expected = perplexity(*demo.network, demo.text, options);
    const auto result = perplexity(demo.architecture, kept, demo.text, options);
    EXPECT_TRUE(same_bits(result.window_nll, expected.window_nll));
    EXPECT_EQ(result.perplexity, expected.perplexity);
    const auto compared = compare_with_reference(*demo.network, kept, demo.text, options);
    EXPECT_EQ(compared.kl_max, 0.0);
    EXPECT_EQ(compared.top1_agreement, 1.0);
  }
}

TEST_P(KeptStates, OfAnotherSizeAreRefused) {
  const Demo demo(GetParam());
  const PerplexityOptions options{.protocol = Protocol::kBlocks, .context = 64};
  keep_states(*demo.network, demo.text, options, file_);
  const auto open = [&](std::size_t tokens) {
    logits_of_kept_states(*demo.network, file_, std::span(demo.text).first(tokens), options);
  };
  EXPECT_TRUE(test::throws_with<FormatError>([&] { open(320); }, "states.f32", "bytes of states"));
  std::filesystem::remove(file_);
  EXPECT_TRUE(test::throws_with<FormatError>([&] { open(700); }, "cannot read"));
}

INSTANTIATE_TEST_SUITE_P(DemoModels, KeptStates, testing::Values("gpt2-demo", "llama-demo"),
                         [](const auto& model) { return std::string(model.param).substr(0, 4); });

}  // namespace
}  // namespace nibble::eval

#include <gtest/gtest.h>

#include "model/transformer/decoder.h"
#include "tests/model/transformer/logits_of.h"
#include "tests/model/transformer/toy_weights.h"

// Plans of memory count what the transformer keeps per token with formulas of model/architecture: here they meet the
// buffers themselves.

namespace nibble::test {
namespace {

class Scratch : public testing::TestWithParam<std::string> {
 protected:
  static constexpr std::size_t kTokens = 33;
  const model::Architecture architecture = toy_architecture(GetParam());
  const std::unique_ptr<model::Model> network = model::make_model(architecture, ToyWeights(architecture, 1));
  const std::vector<TokenId> tokens = toy_tokens(architecture, kTokens, 1);
  std::size_t activations() const { return dynamic_cast<const model::Decoder<float>&>(*network).activations(); }
};

TEST_P(Scratch, ForwardTakesWhatTheFormulaSays) {
  logits_of<float>(*network, tokens);
  EXPECT_EQ(activations(), kTokens * model::forward_floats_per_token(architecture));
}

TEST_P(Scratch, BackwardTakesWhatTheFormulaSays) {
  const std::size_t starts[] = {0, 20, kTokens};
  Matrix<float> x(kTokens, architecture.hidden), dx(kTokens, architecture.hidden);
  network->embed({tokens, starts}, x);
  for (std::size_t block = 0; block < architecture.blocks.size(); ++block) {
    const Matrix<float> before = x;
    network->forward_block(block, {tokens, starts}, x, {}, nullptr);
    network->backward_block(block, {tokens, starts}, before, dx, nullptr);
  }
  EXPECT_EQ(activations(), kTokens * model::backward_floats_per_token(architecture));
}

std::vector<std::string> all_names() {
  std::vector<std::string> names = knobs();
  names.insert(names.end(), {"gpt2", "llama"});
  return names;
}
INSTANTIATE_TEST_SUITE_P(Knobs, Scratch, testing::ValuesIn(all_names()),
                         [](const auto& instance) { return test_name(instance.param); });

}  // namespace
}  // namespace nibble::test

#include "model/rotate/rotated_weights.h"

#include "core/error.h"
#include "model/transformer/transformer.h"
#include "tests/model/transformer/logits_of.h"
#include "tests/model/transformer/toy_weights.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::test {
namespace {

using model::Architecture;

// What config.json with tie_word_embeddings: false would give.
Architecture untied(const Architecture& from) {
  Architecture to = from;
  if (!must_untie(from)) return to;
  to.head.tied = false;
  to.head.linear.weight = model::whole_matrix("own_head.weight", from.vocabulary, from.hidden);
  to.head.linear.weight_module = "own_head";
  return to;
}

std::vector<float> flat(const Matrix<float>& values) {
  std::vector<float> all;
  for (std::size_t i = 0; i < values.rows(); ++i) all.insert(all.end(), values.row(i).begin(), values.row(i).end());
  return all;
}

std::vector<float> rows_of(const WeightSource& source) {
  std::vector<float> all(source.rows() * source.cols());
  source.decode_rows(0, source.rows(), all.data());
  return all;
}

class RotatedNetwork : public testing::TestWithParam<std::string> {};

// Whatever an architecture can say: the same logits, from other weights; or a refusal that names the norm in the way.
TEST_P(RotatedNetwork, HasTheSameLogits) {
  const Architecture from = toy_architecture(GetParam()), to = untied(from);
  const ToyWeights weights(from, 3);
  const std::string reason = why_not_rotatable(from);
  if (!reason.empty()) {
    EXPECT_TRUE(throws_with<InvalidArgument>([&] { make_rotated_provider(from, to, weights, {}); }, reason));
    return;
  }
  const auto tokens = toy_tokens(from, 20, 9);
  const std::vector<float> expected = flat(logits_of(*model::make_model(from, weights), tokens));
  for (const bool values : {true, false}) {
    const auto rotated = make_rotated_provider(from, to, weights, {.seed = 5, .values = values});
    // Weights rounded to float32 once more, a few hundred products deep.
    EXPECT_TRUE(relative_error_within(flat(logits_of(*model::make_model(to, *rotated), tokens)), expected, 2e-5));
    EXPECT_FALSE(
        relative_error_within(rows_of(*rotated->matrix(to.embedding)), rows_of(*weights.matrix(from.embedding)), 0.5))
        << "nothing was rotated";
    const model::Parameter& v = from.blocks[0].attention.v;
    const bool same = relative_error_within(
        rows_of(*rotated->matrix(v)),
        rows_of(*make_rotated_provider(from, to, weights, {.seed = 5, .values = false})->matrix(v)), 1e-3);
    EXPECT_EQ(same, !values || from.blocks[0].attention.clip != 0.0 || from.blocks[0].attention.head_dim == 1);
  }
}

std::vector<std::string> networks() {
  std::vector<std::string> all{"gpt2", "llama"};
  const auto more = knobs();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}
INSTANTIATE_TEST_SUITE_P(Knobs, RotatedNetwork, testing::ValuesIn(networks()),
                         [](const auto& test) { return test_name(test.param); });

TEST(RotatedWeights, GainsAreOneAndBiasesGoWhereTheyCan) {
  const Architecture from = toy_gpt2(), to = untied(from);  // all linear layers have biases; the head has none
  const ToyWeights weights(from, 4);
  const auto rotated = make_rotated_provider(from, to, weights, {});
  for (const model::BlockSpec& block : from.blocks)
    for (const auto& norm : {block.attention_norm, block.mlp_norm}) {
      EXPECT_TRUE(same_bits(rotated->vector(*norm->gain), std::vector<float>(from.hidden, 1.0f)));
      EXPECT_TRUE(same_bits(rotated->vector(*norm->bias), std::vector<float>(from.hidden, 0.0f)));
    }
  const std::vector<float> last = rotated->vector(*from.final_norm->bias);
  EXPECT_TRUE(std::any_of(last.begin(), last.end(), [](float value) { return value != 0.0f; }));
}

TEST(RotatedWeights, AnOwnHeadIsThereWhereTheEmbeddingWasShared) {
  Architecture from = toy_gpt2();
  ASSERT_TRUE(from.head.tied);
  ASSERT_TRUE(must_untie(from));
  const Architecture to = untied(from);
  const ToyWeights weights(from, 4);
  const auto rotated = make_rotated_provider(from, to, weights, {});
  EXPECT_FALSE(weights.contains("own_head.weight"));
  EXPECT_TRUE(rotated->contains("own_head.weight"));
  from.final_norm->gain.reset();
  from.final_norm->bias.reset();
  EXPECT_FALSE(must_untie(from)) << "nothing goes into the head that does not go into the embedding";
}

}  // namespace
}  // namespace nibble::test

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <limits>
#include <map>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "model/architecture/families.h"
#include "model/transformer/transformer.h"
#include "tests/model/transformer/layers/toy_layers.h"
#include "tests/model/transformer/logits_of.h"
#include "tests/model/transformer/naive_transformer.h"
#include "tests/model/transformer/toy_weights.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"
#include "tests/support/tiers.h"

namespace nibble::test {
namespace {

using model::Architecture;
using model::Attention;

class Forward : public testing::TestWithParam<std::string> {
 protected:
  const Architecture architecture = toy_architecture(GetParam());
  const ToyWeights weights{architecture, 7};
  const std::unique_ptr<model::Model> network = model::make_model(architecture, weights);
};

// Double against plain loops: only the order of sums differs. 1e-12 is some thousand roundings of 1e-16.
TEST_P(Forward, DoubleGivesTheLogitsOfTheDefinition) {
  if (beside_default_tier()) GTEST_SKIP() << "double knows no tiers of instructions";
  const auto tokens = toy_tokens(architecture, 90, 1);
  const auto in_double = model::make_dense_transformer<double>(architecture, weights);
  const Matrix<double> expected = naive_logits(architecture, weights, tokens);
  for (const Attention attention : {Attention::kFused, Attention::kDecomposed})
    EXPECT_TRUE(
        relative_error_within(logits_of<double>(*in_double, tokens, {attention}).values(), expected.values(), 1e-12));
}

// Two blocks of sums over 24 to 40 terms in float: a few hundred roundings of 6e-8 at most.
TEST_P(Forward, FloatAgreesWithDouble) {
  const auto tokens = toy_tokens(architecture, 300, 2);
  const auto in_double = model::make_dense_transformer<double>(architecture, weights);
  const Matrix<double> expected = logits_of<double>(*in_double, tokens);
  const Matrix<float> actual = logits_of<float>(*network, tokens);
  const std::vector<double> widened(actual.values().begin(), actual.values().end());
  EXPECT_TRUE(relative_error_within(widened, expected.values(), 1e-5));
}

TEST_P(Forward, ComplexNumbersWithoutImaginaryPartGiveWhatDoubleGives) {
  if (beside_default_tier()) GTEST_SKIP() << "double knows no tiers of instructions";
  const auto tokens = toy_tokens(architecture, 20, 3);
  const Matrix<double> expected =
      logits_of<double>(*model::make_dense_transformer<double>(architecture, weights), tokens);
  const auto actual = logits_of<std::complex<double>>(
      *model::make_dense_transformer<std::complex<double>>(architecture, weights), tokens);
  std::vector<double> real;
  for (const auto& value : actual.values()) real.push_back(value.real());
  EXPECT_TRUE(relative_error_within(real, expected.values(), 1e-12));
}

// 300 tokens make three tiles of keys. The two differ by the order of sums of float.
TEST_P(Forward, FusedAndDecomposedAttentionAgree) {
  const auto tokens = toy_tokens(architecture, 300, 4);
  EXPECT_TRUE(relative_error_within(logits_of<float>(*network, tokens, {Attention::kFused}).values(),
                                    logits_of<float>(*network, tokens, {Attention::kDecomposed}).values(), 1e-5));
}

// Matrix products run on tiles of 256 rows. Sequences that fill them whole meet the same tiles alone as in a batch;
// others may end in another remainder of the tile, where the library sums in another order.
TEST_P(Forward, ABatchGivesWhatEachSequenceGivesAlone) {
  for (const auto& lengths : {std::vector<std::size_t>{256, 512, 256}, {37, 300, 5, 129}}) {
    const bool whole_tiles = lengths[0] == 256;
    const auto tokens = toy_tokens(architecture, std::accumulate(lengths.begin(), lengths.end(), std::size_t{0}), 5);
    for (const Attention attention : {Attention::kFused, Attention::kDecomposed}) {
      const Matrix<float> together = logits_of<float>(*network, tokens, lengths, {attention});
      std::size_t first = 0;
      for (const std::size_t length : lengths) {
        const auto alone = logits_of<float>(*network, std::span(tokens).subspan(first, length), {attention});
        const auto part = together.values().subspan(first * architecture.vocabulary, length * architecture.vocabulary);
        EXPECT_TRUE(whole_tiles ? same_bits(part, alone.values()) : relative_error_within(part, alone.values(), 2e-6))
            << "sequence of " << length;
        first += length;
      }
    }
  }
}

TEST_P(Forward, EmptySequencesAndBatchesAreFine) {
  const auto tokens = toy_tokens(architecture, 20, 6);
  const Matrix<float> plain = logits_of<float>(*network, tokens);
  EXPECT_TRUE(same_bits(logits_of<float>(*network, tokens, {0, 20, 0}).values(), plain.values()));
  EXPECT_EQ(logits_of<float>(*network, {}, std::vector<std::size_t>{}).size(), 0u);
}

TEST_P(Forward, ExtendingInStepsGivesTheLogitsOfOnePrompt) {
  const auto tokens = toy_tokens(architecture, 150, 7);
  const Matrix<float> expected = logits_of<float>(*network, tokens);
  for (const Attention attention : {Attention::kFused, Attention::kDecomposed})
    for (const std::size_t step : {1u, 3u, 64u, 149u, 150u})
      EXPECT_TRUE(relative_error_within(extended_logits_of<float>(*network, tokens, step, {attention}).values(),
                                        expected.values(), 1e-5))
          << "steps of " << step;
}

TEST_P(Forward, TheNumberOfThreadsDoesNotChangeABit) {
  const auto tokens = toy_tokens(architecture, 400, 9);
  set_thread_count(1);
  const Matrix<float> alone = logits_of<float>(*network, tokens, {300, 100});
  for (const std::size_t threads : {2u, 3u}) {
    set_thread_count(threads);
    EXPECT_TRUE(same_bits(logits_of<float>(*network, tokens, {300, 100}).values(), alone.values()));
  }
  set_thread_count(0);
}

TEST_P(Forward, HooksSeeTheInputOfEveryLinearLayerInOrder) {
  std::vector<std::string> seen;
  model::Hooks<float> hooks;
  std::map<std::string, std::size_t> widths;
  hooks.on_linear_input = [&](const std::string& module, MatrixView<const float> x, const model::HookRows&) {
    EXPECT_EQ(x.rows(), 20u);
    seen.push_back(module);
    widths[module] = x.cols();
  };
  logits_of<float>(*network, toy_tokens(architecture, 20, 10), {20}, {}, &hooks);
  std::vector<std::string> expected;
  for (const model::Parameter* layer : model::linear_layers(architecture)) {
    expected.push_back(layer->module);
    EXPECT_EQ(widths[layer->module], layer->in) << layer->module;
  }
  expected.push_back("lm_head");
  EXPECT_EQ(seen, expected);
}

TEST_P(Forward, BlockByBlockIsTheSameAsAtOnce) {
  const auto tokens = toy_tokens(architecture, 40, 11);
  const std::size_t starts[] = {0, 25, 40};
  const model::Batch batch{tokens, starts};
  Matrix<float> x(40, architecture.hidden), dx(40, architecture.hidden);
  network->embed(batch, x);
  for (std::size_t block = 0; block < architecture.blocks.size(); ++block) {
    network->forward_block(block, batch, x, {}, nullptr);
    network->release_block(block);
  }
  std::vector<std::int64_t> targets(40, -1);
  std::vector<float> weights_of_rows(40, 1.0f), losses(40), expected(40);
  for (std::size_t r = 0; r < 40; r += 3) targets[r] = static_cast<std::int64_t>(r);
  network->backward_head(x, targets, weights_of_rows, losses, dx, nullptr);
  const Matrix<float> logits = logits_of<float>(*network, tokens, {25, 15});
  for (std::size_t r = 0; r < 40; r += 3) {
    double sum = 0.0;
    for (const float logit : logits.row(r)) sum += std::exp(static_cast<double>(logit));
    expected[r] = static_cast<float>(std::log(sum) - static_cast<double>(logits(r, r)));
  }
  EXPECT_TRUE(all_near(losses, expected, {.abs = 1e-5, .rel = 1e-6}));  // logits of a few units, in float
}

TEST_P(Forward, RefusesWhatItCannotRun) {
  const auto tokens = toy_tokens(architecture, 10, 12);
  const auto run = [&](std::span<const TokenId> ids, const std::vector<std::size_t>& starts,
                       const std::vector<std::size_t>& rows) {
    network->forward({ids, starts}, rows, [](auto, auto) {});
  };
  auto wrong = tokens;
  wrong[4] = static_cast<TokenId>(architecture.vocabulary);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { run(wrong, {0, 10}, {}); }, "token [4] is 50", "50 ids"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { run(tokens, {0, 9}, {}); }, "starts", "10"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { run(tokens, {0, 7, 3, 10}, {}); }, "ascend", "starts[1] = 7"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { run(tokens, {0, 12, 10}, {}); }, "ascend"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { run(tokens, {0, 10}, {3, 2}); }, "rows", "ascend"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { run(tokens, {0, 10}, {10}); }, "below the number of tokens, 10"));
}

TEST_P(Forward, NanWeightsShowAsAnErrorThatNamesTheRow) {
  class Poisoned : public ToyWeights {
   public:
    using ToyWeights::ToyWeights;
    std::vector<float> vector(const model::Stored& stored) const override {
      auto values = ToyWeights::vector(stored);
      if (stored.tensor == "ln_f.weight" || stored.tensor == "model.norm.weight")
        values[3] = std::numeric_limits<float>::quiet_NaN();
      return values;
    }
  };
  const auto poisoned = model::make_model(architecture, Poisoned(architecture, 7));
  const auto tokens = toy_tokens(architecture, 10, 13);
  const std::size_t starts[] = {0, 10}, rows[] = {6};
  EXPECT_TRUE(throws_with<NumericalError>(
      [&] {
        poisoned->forward({tokens, starts}, rows, [](auto, auto) {});
      },
      "row 6", "NaN"));
}

TEST_P(Forward, MissingBiasesAreNamed) {
  class WithoutBias : public ToyWeights {
   public:
    using ToyWeights::ToyWeights;
    bool contains(const std::string& tensor) const override {
      return tensor.find("1.mlp") == std::string::npos && ToyWeights::contains(tensor);
    }
  };
  const std::string name = architecture.family == "gpt2" ? "h.1.mlp.c_fc.bias" : "1.mlp.gate_proj.bias";
  EXPECT_TRUE(throws_with<FormatError>([&] { model::make_model(architecture, WithoutBias(architecture, 7)); },
                                       "missing", name));
}

INSTANTIATE_TEST_SUITE_P(Families, Forward, testing::Values("gpt2", "llama"),
                         [](const auto& instance) { return instance.param; });

// Everything that an architecture can say, alone and in random company. 141 tokens are more than a tile of attention,
// and more than every window.
class ForwardKnobs : public testing::TestWithParam<std::string> {
 protected:
  const Architecture architecture = toy_architecture(GetParam());
  const ToyWeights weights{architecture, 7};
};

TEST_P(ForwardKnobs, DoubleGivesTheLogitsOfTheDefinition) {
  if (beside_default_tier()) GTEST_SKIP() << "double knows no tiers of instructions";
  const auto tokens = toy_tokens(architecture, 141, 1);
  const auto in_double = model::make_dense_transformer<double>(architecture, weights);
  const Matrix<double> expected = naive_logits(architecture, weights, tokens);
  for (const Attention attention : {Attention::kFused, Attention::kDecomposed})
    EXPECT_TRUE(
        relative_error_within(logits_of<double>(*in_double, tokens, {attention}).values(), expected.values(), 1e-12));
}

TEST_P(ForwardKnobs, FloatAgreesWithDouble) {
  const auto tokens = toy_tokens(architecture, 300, 2);
  const Matrix<double> expected =
      logits_of<double>(*model::make_dense_transformer<double>(architecture, weights), tokens);
  for (const Attention attention : {Attention::kFused, Attention::kDecomposed}) {
    const Matrix<float> actual = logits_of<float>(*model::make_model(architecture, weights), tokens, {attention});
    const std::vector<double> widened(actual.values().begin(), actual.values().end());
    EXPECT_TRUE(relative_error_within(widened, expected.values(), 2e-5));
  }
}

// A pass that ends at a layer has seen what a whole one saw before it, and gives no logits.
TEST_P(ForwardKnobs, APassEndsAtTheLayerThatHooksName) {
  const auto tokens = toy_tokens(architecture, 30, 3);
  const auto network = model::make_model(architecture, weights);
  const std::vector<std::size_t> starts{0, 11, 30}, rows{29};
  const auto reports_until = [&](const std::string& module) {
    Reports<float> reports;
    auto hooks = reports.hooks();
    if (!module.empty()) hooks.until = {module};
    bool reached_the_end = false;
    network->forward(
        {tokens, starts}, rows, [&](auto, auto) { reached_the_end = true; }, {}, &hooks);
    EXPECT_EQ(reached_the_end, module.empty()) << module;
    return std::move(reports.inputs);
  };
  const auto whole = reports_until("");
  std::vector<std::string> modules = {"lm_head"};
  for (const model::Parameter* layer : model::linear_layers(architecture)) modules.push_back(layer->module);
  for (const std::string& module : modules) {
    const auto names = [&](const auto& report) { return report.module == module; };
    const auto end = std::find_if(whole.begin(), whole.end(), names);
    ASSERT_NE(end, whole.end()) << module;
    const auto part = reports_until(module);
    ASSERT_EQ(part.size(), static_cast<std::size_t>(end - whole.begin()) + 1) << module;
    for (std::size_t i = 0; i < part.size(); ++i) {
      EXPECT_EQ(part[i].module, whole[i].module) << "on the way to " << module;
      EXPECT_EQ(part[i].rows, whole[i].rows);
      EXPECT_TRUE(same_bits(part[i].x.values(), whole[i].x.values())) << whole[i].module << " before " << module;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Knobs, ForwardKnobs, testing::ValuesIn(knobs()),
                         [](const auto& instance) { return test_name(instance.param); });

// 1024 rows over 4 * 512 tokens are enough tiles for large ones, over 512 tokens alone they are not.
TEST(LargeTiles, GiveTheBitsOfSmallOnes) {
  const Architecture architecture = toy_gpt2({.intermediate = 1024});
  const auto network = model::make_model(architecture, ToyWeights(architecture, 1));
  const auto tokens = toy_tokens(architecture, 2048, 1);
  const Matrix<float> together = logits_of<float>(*network, tokens, {512, 512, 512, 512});
  for (std::size_t first = 0; first < tokens.size(); first += 512)
    EXPECT_TRUE(same_bits(together.values().subspan(first * architecture.vocabulary, 512 * architecture.vocabulary),
                          logits_of<float>(*network, std::span(tokens).subspan(first, 512)).values()))
        << first;
}

// Whole networks with mixtures, which the knobs do not have: routers of every kind, by the families that have them.
class MixtureFamilies : public testing::TestWithParam<const char*> {
 protected:
  static constexpr const char* kCommon =
      R"("vocab_size": 40, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "num_experts_per_tok": 2)";
  const Architecture architecture = model::parse_architecture(fmt::format("{{{}, {}}}", GetParam(), kCommon), "toy");
  const ToyWeights weights{architecture, 7};
};

TEST_P(MixtureFamilies, DoubleGivesTheLogitsOfTheDefinition) {
  if (beside_default_tier()) GTEST_SKIP() << "double knows no tiers of instructions";
  const auto tokens = toy_tokens(architecture, 60, 1);
  const auto in_double = model::make_dense_transformer<double>(architecture, weights);
  const Matrix<double> expected = naive_logits(architecture, weights, tokens);
  EXPECT_TRUE(relative_error_within(logits_of<double>(*in_double, tokens).values(), expected.values(), 1e-12));
  EXPECT_TRUE(
      relative_error_within(extended_logits_of<double>(*in_double, tokens, 7).values(), expected.values(), 1e-12));
}

INSTANTIATE_TEST_SUITE_P(
    Families, MixtureFamilies,
    testing::Values(
        R"("model_type": "qwen2_moe", "num_experts": 6, "moe_intermediate_size": 9,
           "shared_expert_intermediate_size": 11)",
        R"("model_type": "qwen3_moe", "num_experts": 6, "moe_intermediate_size": 9, "norm_topk_prob": true)",
        R"("model_type": "granitemoe", "num_local_experts": 6)",
        R"("model_type": "glm4_moe", "n_routed_experts": 6, "moe_intermediate_size": 9, "head_dim": 8,
           "routed_scaling_factor": 2.5)",
        R"("model_type": "dots1", "n_routed_experts": 6, "moe_intermediate_size": 9, "n_shared_experts": 2,
           "n_group": 3, "topk_group": 2, "max_window_layers": 1, "sliding_window": 12)",
        R"("model_type": "ernie4_5_moe", "moe_num_experts": 6, "moe_intermediate_size": 9)"));

TEST(LearnedPositions, EndTheSequence) {
  const Architecture architecture = toy_gpt2({.max_positions = 12});
  const auto network = model::make_model(architecture, ToyWeights(architecture, 1));
  const auto tokens = toy_tokens(architecture, 13, 1);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { logits_of<float>(*network, tokens); }, "sequence 0 has 13 tokens",
                                           "12 positions"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { extended_logits_of<float>(*network, tokens, 12); }, "13 positions",
                                           "learned 12"));
}

TEST(RotaryPositions, GoOnBeyondTheConfiguredContext) {
  const Architecture architecture = toy_llama({.max_positions = 12});
  const ToyWeights weights(architecture, 1);
  const auto tokens = toy_tokens(architecture, 30, 1);
  const auto in_double = model::make_dense_transformer<double>(architecture, weights);
  EXPECT_TRUE(relative_error_within(extended_logits_of<double>(*in_double, tokens, 7).values(),
                                    naive_logits(architecture, weights, tokens).values(), 1e-12));
}

TEST(Logits, ComeInChunksOfAtMost32MegabytesInRowOrder) {
  const Architecture architecture =
      toy_gpt2({.vocabulary = 1u << 20, .hidden = 2, .layers = 1, .intermediate = 2, .heads = 1});
  const auto network = model::make_model(architecture, ToyWeights(architecture, 1));
  const auto tokens = toy_tokens(architecture, 20, 1);
  const std::vector<std::size_t> starts{0, 20}, rows{0, 1, 2, 3, 5, 7, 8, 11, 13, 19};
  std::vector<std::size_t> seen, chunks;
  network->forward({tokens, starts}, rows, [&](std::span<const std::size_t> chunk, MatrixView<const float> logits) {
    EXPECT_EQ(logits.rows(), chunk.size());
    EXPECT_EQ(logits.cols(), architecture.vocabulary);
    seen.insert(seen.end(), chunk.begin(), chunk.end());
    chunks.push_back(chunk.size());
  });
  EXPECT_EQ(seen, rows);
  EXPECT_EQ(chunks, (std::vector<std::size_t>{8, 2}));

  // A pass that ends at the head has told all of its input, and gives none of them.
  Reports<float> reports;
  auto hooks = reports.hooks();
  hooks.until = {"lm_head"};
  network->forward(
      {tokens, starts}, rows, [](auto, auto) { ADD_FAILURE() << "logits"; }, {}, &hooks);
  std::vector<std::size_t> told;
  for (const auto& report : reports.inputs)
    if (report.module == "lm_head") told.insert(told.end(), report.rows.begin(), report.rows.end());
  EXPECT_EQ(told, rows);
}

}  // namespace
}  // namespace nibble::test

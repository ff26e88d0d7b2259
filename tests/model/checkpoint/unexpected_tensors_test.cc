#include "model/checkpoint/unexpected_tensors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/checkpoint/weights.h"
#include "tests/support/files.h"
#include "tests/support/tiny_checkpoint.h"

namespace nibble::model {
namespace {

using test::f32_tensor;
using test::TempDir;

constexpr std::string_view kLlama = R"({"model_type": "llama", "vocab_size": 4, "hidden_size": 4,
    "intermediate_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2)";

class UnexpectedTensors : public testing::Test {
 protected:
  /// One layer with a bias, and tensors of other kinds.
  std::shared_ptr<const Checkpoint> make(const std::string& more) {
    const std::vector<float> ones(16, 1.0f), vector(4, 5.0f);
    test::write_checkpoint(directory_.path(), std::string(kLlama) + more + "}",
                           {f32_tensor("model.layers.0.self_attn.o_proj.weight", {4, 4}, ones),
                            f32_tensor("model.layers.0.self_attn.o_proj.bias", {4}, vector),
                            f32_tensor("model.layers.0.self_attn.q_norm.weight", {4}, vector),
                            f32_tensor("model.layers.0.self_attn.rotary_emb.inv_freq", {4}, vector),
                            f32_tensor("model.norm.weight", {4}, vector)});
    return Checkpoint::open(directory_.path());
  }
  static std::vector<float> bias(const std::shared_ptr<const Checkpoint>& checkpoint) {
    return bias_of(checkpoint->architecture().blocks[0].attention.o, *make_float_provider(checkpoint));
  }
  TempDir directory_;
};

TEST_F(UnexpectedTensors, AreLeftOut) {
  const auto checkpoint = make("");
  EXPECT_EQ(bias(checkpoint), std::vector<float>{});
  EXPECT_EQ(find_tensor_name(*checkpoint, "model.layers.0.self_attn.o_proj.bias"), std::nullopt);
  EXPECT_TRUE(checkpoint->architecture().is_ignored("model.layers.0.self_attn.o_proj.bias"));
  EXPECT_EQ(unexpected_tensors(*checkpoint), (std::vector<std::string>{"model.layers.0.self_attn.o_proj.bias",
                                                                       "model.layers.0.self_attn.q_norm.weight"}));
}

TEST_F(UnexpectedTensors, AreNoBiasesThatConfigJsonAsksFor) {
  const auto checkpoint = make(R"(, "attention_bias": true)");
  EXPECT_EQ(bias(checkpoint), std::vector<float>(4, 5.0f));
  EXPECT_EQ(unexpected_tensors(*checkpoint), std::vector<std::string>{"model.layers.0.self_attn.q_norm.weight"});
}

TEST_F(UnexpectedTensors, AreBiasesThatTheKeyOfAFamilyDenies) {
  const std::vector<float> vector(4, 5.0f);
  const auto biases = [&](const char* family, const std::string& key = "") {
    std::string config = fmt::format(R"({{"model_type": "{}", "vocab_size": 4, "hidden_size": 4, "head_dim": 4,
        "intermediate_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1)",
                                     family);
    if (!key.empty()) config += ", " + key;
    test::write_checkpoint(directory_.path(), config + "}",
                           {f32_tensor("model.layers.0.self_attn.k_proj.bias", {4}, vector)});
    const auto checkpoint = Checkpoint::open(directory_.path());
    const auto weights = make_float_provider(checkpoint);
    EXPECT_EQ(unexpected_tensors(*checkpoint).empty(), checkpoint->architecture().blocks[0].attention.k.biased);
    return bias_of(checkpoint->architecture().blocks[0].attention.k, *weights);
  };
  EXPECT_EQ(biases("glm4_moe"), std::vector<float>{});
  EXPECT_EQ(biases("glm4_moe", R"("attention_bias": true)"), vector);
  for (const char* family : {"glm", "glm4", "seed_oss"}) {
    EXPECT_EQ(biases(family), vector) << family;
    EXPECT_EQ(biases(family, R"("attention_bias": false)"), std::vector<float>{}) << family;
  }
  const std::string of_qwen = R"("num_experts": 0, "moe_intermediate_size": 4, )";
  EXPECT_EQ(biases("qwen2_moe", of_qwen + R"("qkv_bias": true)"), vector);
  EXPECT_EQ(biases("qwen2_moe", of_qwen + R"("qkv_bias": false)"), std::vector<float>{});
}

TEST_F(UnexpectedTensors, AreNoneOfOurOwnCheckpoints) {
  const auto checkpoint = make(R"(, "quantization_config": {"quant_method": "nibble"})");
  EXPECT_EQ(bias(checkpoint), std::vector<float>(4, 5.0f)) << "a correction";
  EXPECT_EQ(unexpected_tensors(*checkpoint), std::vector<std::string>{});
}

TEST_F(UnexpectedTensors, AreNoLayersOfMultiTokenPrediction) {
  const std::vector<float> ones(8, 1.0f);
  test::write_checkpoint(directory_.path(), R"({"model_type": "glm4_moe", "vocab_size": 4, "hidden_size": 4,
      "intermediate_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1,
      "num_nextn_predict_layers": 1})",
                         {f32_tensor("model.layers.1.eh_proj.weight", {2, 4}, ones),
                          f32_tensor("model.layers.1.mlp.gate.e_score_correction_bias", {8}, ones),
                          f32_tensor("model.layers.2.eh_proj.weight", {2, 4}, ones)});
  EXPECT_EQ(unexpected_tensors(*Checkpoint::open(directory_.path())),
            std::vector<std::string>{"model.layers.2.eh_proj.weight"});
}

// Files that hold a tied head a second time are common; what such a head is, is to be read.
TEST_F(UnexpectedTensors, AreTiedHeadsThatAreNotTheEmbedding) {
  const std::vector<float> table(16, 1.0f), vector(4, 5.0f);
  std::vector<float> other = table;
  other.back() = 2.0f;
  const auto with_head = [&](const test::TinyTensor& head, const char* tied) {
    test::write_checkpoint(directory_.path(), std::string(kLlama) + R"(, "tie_word_embeddings": )" + tied + "}",
                           {f32_tensor("model.embed_tokens.weight", {4, 4}, table), head});
    return Checkpoint::open(directory_.path());
  };
  EXPECT_EQ(unexpected_tensors(*with_head(f32_tensor("lm_head.weight", {4, 4}, table), "true")),
            std::vector<std::string>{});
  EXPECT_EQ(unexpected_tensors(*with_head(test::f16_tensor("lm_head.weight", {4, 4}, table), "true")),
            std::vector<std::string>{});
  EXPECT_EQ(unexpected_tensors(*with_head(f32_tensor("lm_head.weight", {4, 4}, other), "false")),
            std::vector<std::string>{});
  const auto checkpoint = with_head(f32_tensor("lm_head.weight", {4, 4}, other), "true");
  EXPECT_EQ(unexpected_tensors(*checkpoint), std::vector<std::string>{"lm_head.weight"});
  EXPECT_THAT(describe_unexpected_tensors(*checkpoint),
              testing::HasSubstr("lm_head.weight is not the embedding, to which config.json ties the head"));
}

TEST_F(UnexpectedTensors, AreNoneOfTheOtherPartsOfAModelThatSees) {
  const std::vector<float> vector(4, 5.0f);
  const auto describe = [&](const char* more) {
    test::write_checkpoint(directory_.path(), R"({"model_type": "llava", "text_config": )" + std::string(kLlama) + "}}",
                           {f32_tensor("language_model.model.norm.weight", {4}, vector),
                            f32_tensor("vision_tower.a.weight", {4}, vector), f32_tensor(more, {4}, vector)});
    return describe_unexpected_tensors(*Checkpoint::open(directory_.path()));
  };
  EXPECT_THAT(describe("vision_tower.b.weight"),
              testing::EndsWith("sees as well: its language model is read, tensors of other parts are left out (2)"));
  EXPECT_THAT(describe("language_model.model.odd"),
              testing::AllOf(testing::HasSubstr("tensors of other parts are left out (1); '"),
                             testing::EndsWith("config.json asks for no tensor model.odd: left out")));
}

}  // namespace
}  // namespace nibble::model

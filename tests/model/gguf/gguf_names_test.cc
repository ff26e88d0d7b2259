#include "model/gguf/gguf_names.h"

#include <gmock/gmock.h>

#include <set>

namespace nibble::model {
namespace {

using Rows = GgufCandidate::Rows;

const GgufArchitecture& named(std::string_view name) {
  const GgufArchitecture* const found = find_gguf_architecture(name);
  if (found == nullptr) throw std::runtime_error(std::string(name));
  return *found;
}

std::string name_of(std::string_view architecture, const GgufParameter& parameter) {
  return gguf_tensor_name(named(architecture), parameter);
}

TEST(GgufNames, AreTheFormats) {
  EXPECT_EQ(name_of("llama", {.role = Role::kEmbedding, .block = 9}), "token_embd.weight");
  EXPECT_EQ(name_of("llama", {.role = Role::kHead}), "output.weight");
  EXPECT_EQ(name_of("llama", {.role = Role::kFinalNorm}), "output_norm.weight");
  EXPECT_EQ(name_of("gpt2", {.role = Role::kFinalNorm, .bias = true}), "output_norm.bias");
  EXPECT_EQ(name_of("gpt2", {.role = Role::kPositions}), "position_embd.weight");
  EXPECT_EQ(name_of("bloom", {.role = Role::kEmbeddingNorm}), "token_embd_norm.weight");
  EXPECT_EQ(name_of("llama", {.role = Role::kQ, .block = 3}), "blk.3.attn_q.weight");
  EXPECT_EQ(name_of("qwen2", {.role = Role::kK, .block = 3, .bias = true}), "blk.3.attn_k.bias");
  EXPECT_EQ(name_of("gpt2", {.role = Role::kV, .block = 0, .bias = true}), "blk.0.attn_qkv.bias");
  EXPECT_EQ(name_of("llama", {.role = Role::kO, .block = 10}), "blk.10.attn_output.weight");
  EXPECT_EQ(name_of("llama", {.role = Role::kAttentionNorm}), "blk.0.attn_norm.weight");
  EXPECT_EQ(name_of("llama", {.role = Role::kMlpNorm}), "blk.0.ffn_norm.weight");
  EXPECT_EQ(name_of("gpt-oss", {.role = Role::kMlpNorm}), "blk.0.post_attention_norm.weight");
  EXPECT_EQ(name_of("seed_oss", {.role = Role::kMlpNorm}), "blk.0.post_attention_norm.weight");
  EXPECT_EQ(name_of("gpt-oss", {.role = Role::kSinks}), "blk.0.attn_sinks.weight");
  EXPECT_EQ(name_of("gemma2", {.role = Role::kAttentionPostNorm}), "blk.0.post_attention_norm.weight");
  EXPECT_EQ(name_of("gemma2", {.role = Role::kMlpPostNorm}), "blk.0.post_ffw_norm.weight");
  EXPECT_EQ(name_of("qwen3", {.role = Role::kQNorm}), "blk.0.attn_q_norm.weight");
  EXPECT_EQ(name_of("qwen3", {.role = Role::kKNorm}), "blk.0.attn_k_norm.weight");
  EXPECT_EQ(name_of("llama", {.role = Role::kGate}), "blk.0.ffn_gate.weight");
  EXPECT_EQ(name_of("phi3", {.role = Role::kUp}), "blk.0.ffn_up.weight");
  EXPECT_EQ(name_of("llama", {.role = Role::kDown}), "blk.0.ffn_down.weight");
  EXPECT_EQ(name_of("llama", {.role = Role::kRouter}), "blk.0.ffn_gate_inp.weight");
  EXPECT_EQ(name_of("llama", {.role = Role::kGate, .expert = 5}), "blk.0.ffn_gate_exps.weight");
  EXPECT_EQ(name_of("gpt-oss", {.role = Role::kDown, .expert = 5, .bias = true}), "blk.0.ffn_down_exps.bias");
  EXPECT_EQ(name_of("qwen2moe", {.role = Role::kUp, .shared_expert = true}), "blk.0.ffn_up_shexp.weight");
  EXPECT_EQ(name_of("glm4moe", {.role = Role::kMlpNorm}), "blk.0.post_attention_norm.weight");
  EXPECT_EQ(name_of("dots1", {.role = Role::kRouterCorrection, .block = 1, .bias = true}), "blk.1.exp_probs_b.bias");
  EXPECT_TRUE(gguf_ends_in_bias(Role::kRouterCorrection));
  EXPECT_FALSE(gguf_ends_in_bias(Role::kSinks));
  EXPECT_EQ(name_of("qwen2moe", {.role = Role::kSharedExpertGate}), "blk.0.ffn_gate_inp_shexp.weight");
}

TEST(GgufNames, HaveOthersWhereFilesDiffer) {
  const auto q = gguf_candidates(named("gpt2"), {.role = Role::kQ});
  ASSERT_EQ(q.size(), 2u);
  EXPECT_EQ(q[0].name, "blk.0.attn_qkv.weight");
  EXPECT_EQ(q[0].rows, Rows::kFirst);
  EXPECT_EQ(q[1].name, "blk.0.attn_q.weight");
  EXPECT_EQ(q[1].rows, Rows::kAll);
  EXPECT_EQ(gguf_candidates(named("phi2"), {.role = Role::kK})[1].rows, Rows::kBeforeLast);
  EXPECT_EQ(gguf_candidates(named("phi2"), {.role = Role::kV})[1].rows, Rows::kLast);

  for (const char* const glm : {"glm4", "chatglm"}) {
    const auto gate = gguf_candidates(named(glm), {.role = Role::kGate});
    ASSERT_EQ(gate.size(), 2u) << glm;
    EXPECT_EQ(gate[0].name, "blk.0.ffn_gate.weight");
    EXPECT_EQ(gate[1].name, "blk.0.ffn_up.weight");
    EXPECT_EQ(gate[1].rows, Rows::kFirst);
  }
  EXPECT_EQ(gguf_candidates(named("llama"), {.role = Role::kUp})[0].rows, Rows::kAll);

  const auto expert = gguf_candidates(named("llama"), {.role = Role::kGate, .block = 2, .expert = 7});
  EXPECT_TRUE(expert[0].stacked);
  EXPECT_EQ(expert[1].name, "blk.2.ffn_gate.7.weight");
  EXPECT_FALSE(expert[1].stacked);

  const auto norm = gguf_candidates(named("falcon"), {.role = Role::kAttentionNorm});
  EXPECT_EQ(norm[0].name, "blk.0.attn_norm_2.weight");
  EXPECT_EQ(norm[1].name, "blk.0.attn_norm.weight");
  EXPECT_EQ(gguf_candidates(named("falcon"), {.role = Role::kMlpNorm})[0].name, "blk.0.attn_norm.weight");
}

TEST(GgufNames, AreThereForEveryArchitectureAndRole) {
  std::set<std::string_view> names;
  for (const GgufArchitecture& architecture : gguf_architectures()) {
    EXPECT_TRUE(names.insert(architecture.name).second) << architecture.name;
    EXPECT_FALSE(architecture.model_type.empty());
    for (int role = 0; role <= static_cast<int>(Role::kHead); ++role) {
      const auto list = gguf_candidates(architecture, {.role = static_cast<Role>(role)});
      std::set<std::string> different;
      for (const GgufCandidate& candidate : list) EXPECT_TRUE(different.insert(candidate.name).second);
      EXPECT_GE(list.size(), 1u);
      EXPECT_LE(list.front().name.size(), 63u);
    }
  }
  EXPECT_GE(names.size(), 30u);
}

TEST(GgufNames, OfUnknownArchitecturesAreSaid) {
  EXPECT_EQ(find_gguf_architecture("lama"), nullptr);
  EXPECT_THAT(unknown_gguf_architecture("lama"), testing::HasSubstr("did you mean 'llama'?"));
  EXPECT_THAT(unknown_gguf_architecture("t5encoder"), testing::HasSubstr("expected one of llama, "));
}

}  // namespace
}  // namespace nibble::model

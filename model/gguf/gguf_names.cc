#include "model/gguf/gguf_names.h"

#include <algorithm>

#include "core/error.h"
#include "core/text/suggest.h"

namespace nibble::model {
namespace {

using Biases = GgufArchitecture::Biases;
using Factors = GgufArchitecture::Factors;
using Head = GgufArchitecture::Head;
using Rotary = GgufArchitecture::Rotary;
using Rows = GgufCandidate::Rows;

constexpr GgufArchitecture::Name kRoleNames[] = {
    {Role::kEmbedding, "token_embd"},
    {Role::kPositions, "position_embd"},
    {Role::kEmbeddingNorm, "token_embd_norm"},
    {Role::kAttentionNorm, "attn_norm"},
    {Role::kAttentionPostNorm, "post_attention_norm"},
    {Role::kMlpNorm, "ffn_norm"},
    {Role::kMlpPostNorm, "post_ffw_norm"},
    {Role::kQNorm, "attn_q_norm"},
    {Role::kKNorm, "attn_k_norm"},
    {Role::kQ, "attn_q"},
    {Role::kK, "attn_k"},
    {Role::kV, "attn_v"},
    {Role::kO, "attn_output"},
    {Role::kSinks, "attn_sinks"},
    {Role::kRouter, "ffn_gate_inp"},
    {Role::kRouterCorrection, "exp_probs_b"},
    {Role::kGate, "ffn_gate"},
    {Role::kUp, "ffn_up"},
    {Role::kDown, "ffn_down"},
    {Role::kSharedExpertGate, "ffn_gate_inp_shexp"},
    {Role::kFinalNorm, "output_norm"},
    {Role::kHead, "output"},
};

const std::vector<GgufArchitecture>& architecture_table() {
  // llama.cpp calls rotary pairs of neighbours "normal" and halves apart "neox". Of the normal ones, command-r,
  // cohere2, glm4, chatglm and ernie4_5 have neighbours in their checkpoints too; the others' q and k are moved by the
  // converter. Granite 4.0 without state-space layers is the converter's "granite" too. What is fused in a checkpoint
  // and interleaved by heads there (gptneox, bloom, falcon) is q, then k, then v in the file.
  static const std::vector<GgufArchitecture> list = {
      {.name = "llama",
       .model_type = "llama",
       .more_model_types = {"internlm3", "iquestcoder", "mistral", "ministral", "mixtral"},
       .rotary = Rotary::kInterleaved,
       .biases = Biases::kAll,
       .factors = Factors::kOneOrTwo},
      {.name = "mistral3",
       .model_type = "mistral",
       .more_model_types = {"ministral3"},
       .rotary = Rotary::kInterleaved,
       .biases = Biases::kAll,
       .factors = Factors::kOneOrTwo},
      {.name = "qwen2", .model_type = "qwen2", .heads_fill_width = true},
      {.name = "qwen2moe", .model_type = "qwen2_moe", .heads_fill_width = true, .head = Head::kWritten},
      {.name = "qwen3", .model_type = "qwen3"},
      {.name = "qwen3moe", .model_type = "qwen3_moe"},
      {.name = "gemma", .model_type = "gemma", .gain_plus_one = true, .head = Head::kTied},
      {.name = "gemma2", .model_type = "gemma2", .window_every = 2, .gain_plus_one = true, .head = Head::kTied},
      {.name = "gemma3", .model_type = "gemma3_text", .window_every = 6, .gain_plus_one = true},
      {.name = "phi2",
       .model_type = "phi",
       .heads_fill_width = true,
       .biases = Biases::kAll,
       .head_bias = true,
       .head = Head::kWritten,
       .biases_demanded = true},
      {.name = "phi3",
       .model_type = "phi3",
       .fused_qkv = true,
       .gate_in_up = true,
       .heads_fill_width = true,
       .factors = Factors::kTwo},
      {.name = "gptneox",
       .model_type = "gpt_neox",
       .fused_qkv = true,
       .biases = Biases::kAll,
       .head = Head::kWritten,
       .biases_demanded = true},
      {.name = "gpt2", .model_type = "gpt2", .fused_qkv = true, .biases = Biases::kAll, .biases_demanded = true},
      {.name = "falcon",
       .model_type = "falcon",
       .fused_qkv = true,
       // Where both branches have a norm of their own, "attn_norm" is the MLP's.
       .other_names = {{Role::kAttentionNorm, "attn_norm_2"}, {Role::kMlpNorm, "attn_norm"}},
       .biases = Biases::kNone},
      {.name = "bloom", .model_type = "bloom", .fused_qkv = true, .biases = Biases::kAll, .biases_demanded = true},
      {.name = "starcoder", .model_type = "gpt_bigcode", .fused_qkv = true, .biases = Biases::kAll},
      {.name = "starcoder2",
       .model_type = "starcoder2",
       .heads_fill_width = true,
       .biases = Biases::kAll,
       .biases_demanded = true},
      {.name = "stablelm", .model_type = "stablelm", .head = Head::kWritten},
      {.name = "olmo", .model_type = "olmo", .rotary = Rotary::kInterleaved, .heads_fill_width = true},
      {.name = "olmo2",
       .model_type = "olmo2",
       .more_model_types = {"olmo3"},
       .window_every = 4,
       .heads_fill_width = true,
       .head = Head::kWritten},
      {.name = "olmoe", .model_type = "olmoe", .head = Head::kWritten},
      {.name = "granite",
       .model_type = "granite",
       .more_model_types = {"granitemoehybrid"},
       .rotary = Rotary::kInterleaved,
       .biases = Biases::kAll,
       .factors = Factors::kOneOrTwo},
      {.name = "granitemoe",
       .model_type = "granitemoe",
       .rotary = Rotary::kInterleaved,
       .biases = Biases::kAttention,
       .factors = Factors::kOneOrTwo},
      {.name = "command-r", .model_type = "cohere", .heads_fill_width = true, .head = Head::kTied},
      {.name = "cohere2", .model_type = "cohere2", .window_every = 4, .head = Head::kTied},
      {.name = "gpt-oss",
       .model_type = "gpt_oss",
       .window_every = 2,
       .other_names = {{Role::kMlpNorm, "post_attention_norm"}},
       .biases = Biases::kAttention,
       .expert_biases = true,
       .head = Head::kWritten,
       .biases_demanded = true},
      {.name = "nemotron",
       .model_type = "nemotron",
       .gain_plus_one = true,
       .heads_fill_width = true,
       .biases = Biases::kAll,
       .head = Head::kWritten},
      {.name = "exaone4", .model_type = "exaone4", .window_every = 4, .factors = Factors::kOne},
      {.name = "smollm3", .model_type = "smollm3", .rotary = Rotary::kInterleaved},
      {.name = "glm4", .model_type = "glm4", .gate_in_up = true},
      {.name = "glm4moe",
       .model_type = "glm4_moe",
       .other_names = {{Role::kMlpNorm, "post_attention_norm"}},
       .experts_demanded = true},
      {.name = "hunyuan-dense", .model_type = "hunyuan_v1_dense", .biases = Biases::kNone},
      {.name = "minimax-m2", .model_type = "minimax_m2", .biases = Biases::kNone, .head = Head::kWritten},
      {.name = "dots1",
       .model_type = "dots1",
       .biases = Biases::kNone,
       .head = Head::kWritten,
       .experts_demanded = true},
      {.name = "chatglm", .model_type = "glm", .gate_in_up = true, .heads_fill_width = true},
      {.name = "arcee", .model_type = "arcee", .rotary = Rotary::kInterleaved, .factors = Factors::kOne},
      {.name = "ernie4_5", .model_type = "ernie4_5"},  // takes a bias of attn_output too, and does not add it
      {.name = "ernie4_5-moe", .model_type = "ernie4_5_moe", .experts_demanded = true},
      {.name = "seed_oss", .model_type = "seed_oss", .other_names = {{Role::kMlpNorm, "post_attention_norm"}}},
  };
  return list;
}

bool in_block(Role role) {
  switch (role) {
    case Role::kEmbedding:
    case Role::kPositions:
    case Role::kEmbeddingNorm:
    case Role::kFinalNorm:
    case Role::kHead:
      return false;
    default:
      return true;
  }
}

std::string_view common_name(Role role) {
  const auto* const row =
      std::find_if(std::begin(kRoleNames), std::end(kRoleNames), [&](const auto& r) { return r.role == role; });
  NIBBLE_REQUIRE(row != std::end(kRoleNames), InvalidArgument, "GGUF: no name for the role {}", role_name(role));
  return row->name;
}

}  // namespace

std::span<const GgufArchitecture> gguf_architectures() { return architecture_table(); }

const GgufArchitecture* find_gguf_architecture(std::string_view name) {
  for (const GgufArchitecture& row : architecture_table())
    if (row.name == name) return &row;
  return nullptr;
}

const GgufArchitecture* find_gguf_architecture_of_family(std::string_view model_type) {
  for (const GgufArchitecture& row : architecture_table())
    if (row.model_type == model_type ||
        std::find(row.more_model_types.begin(), row.more_model_types.end(), model_type) != row.more_model_types.end())
      return &row;
  return nullptr;
}

bool gguf_takes_bias(const GgufArchitecture& architecture, const Parameter& parameter) {
  if (parameter.role == Role::kHead) return architecture.head_bias;
  if (parameter.expert || parameter.role == Role::kRouter) return architecture.expert_biases;
  switch (parameter.role) {
    case Role::kQ:
    case Role::kK:
    case Role::kV:
      return architecture.biases != Biases::kNone;
    case Role::kO:
      return architecture.biases == Biases::kAttention || architecture.biases == Biases::kAll;
    case Role::kGate:
    case Role::kUp:
    case Role::kDown:
      return architecture.biases == Biases::kAll && !parameter.shared_expert;
    default:
      return false;
  }
}

bool gguf_takes_factors(const GgufArchitecture& architecture, std::size_t lists) {
  switch (architecture.factors) {
    case Factors::kNone:
      return lists == 0;
    case Factors::kOne:
      return lists <= 1;
    case Factors::kOneOrTwo:
    case Factors::kTwo:
      return true;
  }
  return false;
}

bool gguf_ends_in_bias(Role role) { return role == Role::kRouterCorrection; }

std::string unknown_gguf_architecture(std::string_view name) {
  std::vector<std::string_view> names;
  for (const GgufArchitecture& row : architecture_table()) names.push_back(row.name);
  return fmt::format("expected one of {}{}", fmt::join(names, ", "), did_you_mean(name, names));
}

std::vector<GgufCandidate> gguf_candidates(const GgufArchitecture& architecture, const GgufParameter& parameter) {
  const Role role = parameter.role;
  const std::string prefix = in_block(role) ? fmt::format("blk.{}.", parameter.block) : "";
  const std::string_view suffix = parameter.bias ? ".bias" : ".weight";
  std::vector<GgufCandidate> list;
  const auto add = [&](std::string_view name, std::string_view tail = "", Rows rows = Rows::kAll,
                       bool stacked = false) {
    list.push_back({fmt::format("{}{}{}{}", prefix, name, tail, suffix), rows, stacked});
  };
  const std::string_view name = common_name(role);
  if (parameter.shared_expert && role != Role::kSharedExpertGate) {
    add(name, "_shexp");
    return list;
  }
  if (parameter.expert) {
    add(name, "_exps", Rows::kAll, true);
    add(name, fmt::format(".{}", *parameter.expert));  // files of 2023
    return list;
  }
  for (const GgufArchitecture::Name& other : architecture.other_names)
    if (other.role == role) add(other.name);
  const bool is_qkv = role == Role::kQ || role == Role::kK || role == Role::kV;
  if (!is_qkv || !architecture.fused_qkv) add(name);
  if (is_qkv) add("attn_qkv", "", role == Role::kQ ? Rows::kFirst : role == Role::kK ? Rows::kBeforeLast : Rows::kLast);
  if (is_qkv && architecture.fused_qkv) add(name);
  if (architecture.gate_in_up && role == Role::kGate) add("ffn_up", "", Rows::kFirst);
  if (architecture.gate_in_up && role == Role::kUp) list = {{prefix + "ffn_up" + std::string(suffix), Rows::kLast}};
  return list;
}

std::string gguf_tensor_name(const GgufArchitecture& architecture, const GgufParameter& parameter) {
  const std::vector<GgufCandidate> candidates = gguf_candidates(architecture, parameter);
  const bool within_up = architecture.gate_in_up && parameter.role == Role::kGate && candidates.size() > 1;
  return (within_up ? candidates.back() : candidates.front()).name;
}

}  // namespace nibble::model

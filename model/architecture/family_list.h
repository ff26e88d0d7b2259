#pragma once

#include <vector>

#include "model/architecture/architecture.h"

// The parsers of families/: the list that families.cc reads.

// model_type of config.json; parse_MODEL_TYPE() is in families/. One line each.
#define NIBBLE_FAMILIES(FAMILY) \
  FAMILY(arcee)                 \
  FAMILY(bloom)                 \
  FAMILY(cohere)                \
  FAMILY(cohere2)               \
  FAMILY(cwm)                   \
  FAMILY(dots1)                 \
  FAMILY(ernie4_5)              \
  FAMILY(ernie4_5_moe)          \
  FAMILY(exaone4)               \
  FAMILY(falcon)                \
  FAMILY(gemma)                 \
  FAMILY(gemma2)                \
  FAMILY(gemma3_text)           \
  FAMILY(glm)                   \
  FAMILY(glm4)                  \
  FAMILY(glm4_moe)              \
  FAMILY(gpt2)                  \
  FAMILY(gpt_neo)               \
  FAMILY(gpt_neox)              \
  FAMILY(gpt_oss)               \
  FAMILY(gptj)                  \
  FAMILY(granite)               \
  FAMILY(granitemoe)            \
  FAMILY(granitemoehybrid)      \
  FAMILY(helium)                \
  FAMILY(hunyuan_v1_dense)      \
  FAMILY(hyperclovax)           \
  FAMILY(internlm3)             \
  FAMILY(iquestcoder)           \
  FAMILY(llama)                 \
  FAMILY(mellum)                \
  FAMILY(minimax_m2)            \
  FAMILY(ministral)             \
  FAMILY(ministral3)            \
  FAMILY(mistral)               \
  FAMILY(mixtral)               \
  FAMILY(nanochat)              \
  FAMILY(nemotron)              \
  FAMILY(olmo)                  \
  FAMILY(olmo2)                 \
  FAMILY(olmo3)                 \
  FAMILY(olmoe)                 \
  FAMILY(opt)                   \
  FAMILY(phi)                   \
  FAMILY(phi3)                  \
  FAMILY(qwen2)                 \
  FAMILY(qwen2_moe)             \
  FAMILY(qwen3)                 \
  FAMILY(qwen3_moe)             \
  FAMILY(seed_oss)              \
  FAMILY(smollm3)               \
  FAMILY(stablelm)              \
  FAMILY(starcoder2)            \
  FAMILY(vaultgemma)

namespace nibble::model {

class FamilyConfig;
struct LlamaDefaults;
struct LlamaLike;
struct RotaryDefaults;

#define NIBBLE_DECLARE(NAME) Architecture parse_##NAME(const FamilyConfig& config);
NIBBLE_FAMILIES(NIBBLE_DECLARE)
#undef NIBBLE_DECLARE

// What families lend to others of their line.

/// Qwen2 and later: windows from block max_window_layers on where use_sliding_window says so.
std::vector<bool> qwen_windowed_blocks(const FamilyConfig& config, std::size_t layers);
/// Qwen's mixtures: blocks of decoder_sparse_step that mlp_only_layers does not list.
std::vector<bool> qwen_sparse_blocks(const FamilyConfig& config, std::size_t layers);
/// What such mixtures are where config.json does not say.
struct QwenMixtures {
  std::size_t count = 0, active = 0, width = 0;
  bool renormalise = false;
};
/// Mixtures of MLPs with tensors of their own in the `sparse` blocks; none where there are no experts.
void set_qwen_mixtures(Architecture& architecture, const FamilyConfig& config, const LlamaLike& like,
                       const std::vector<bool>& sparse, const QwenMixtures& defaults);
/// Mixtures in every block, whose MLPs are w1, w3 and w2; the weights of those chosen sum to 1.
void set_mixtral_experts(Architecture& architecture, const FamilyConfig& config, const LlamaLike& like,
                         std::size_t default_count, std::size_t default_active);
/// What DeepSeek's mixtures are where config.json does not say; 0: it has to.
struct DeepSeekMixtures {
  std::size_t count = 0, active = 0, width = 1408, shared = 0;
  std::size_t dense = 0;  ///< blocks in front that are no mixtures
  bool renormalise = false;
};
/// DeepSeek-V3 and what routes as it does: sigmoids and a correction, groups, shared experts that are one MLP.
void set_deepseek_mixtures(Architecture& architecture, const FamilyConfig& config, const LlamaLike& like,
                           const DeepSeekMixtures& defaults);
/// Cohere: attention and MLP side by side behind one LayerNorm; without norms of q and k.
Architecture build_cohere(const FamilyConfig& config, const RotaryDefaults& rotary);
/// Gemma: gains of 1 + w.
LlamaLike gemma_like(const FamilyConfig& config, const LlamaDefaults& defaults);
/// Gemma 2 and 3: norms on both sides, soft-caps (0: none unless config.json says), score scale, embedding scale.
Architecture build_gemma2(const FamilyConfig& config, LlamaLike like, double attention_cap, double logit_cap);
/// Granite: multipliers of embedding, scores, residual and logits.
void set_granite_multipliers(Architecture& architecture, const FamilyConfig& config);

}  // namespace nibble::model

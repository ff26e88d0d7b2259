#pragma once

#include <vector>

#include "model/architecture/architecture.h"

// The parsers of families/, for the list in families.cc.
namespace nibble::model {

class FamilyConfig;
struct LlamaDefaults;
struct LlamaLike;

Architecture parse_bloom(const FamilyConfig& config);
Architecture parse_cohere(const FamilyConfig& config);
Architecture parse_exaone4(const FamilyConfig& config);
Architecture parse_falcon(const FamilyConfig& config);
Architecture parse_gemma(const FamilyConfig& config);
Architecture parse_gemma2(const FamilyConfig& config);
Architecture parse_gemma3_text(const FamilyConfig& config);
Architecture parse_glm4(const FamilyConfig& config);
Architecture parse_gpt2(const FamilyConfig& config);
Architecture parse_gpt_neo(const FamilyConfig& config);
Architecture parse_gpt_neox(const FamilyConfig& config);
Architecture parse_gpt_oss(const FamilyConfig& config);
Architecture parse_gptj(const FamilyConfig& config);
Architecture parse_granite(const FamilyConfig& config);
Architecture parse_granitemoe(const FamilyConfig& config);
Architecture parse_llama(const FamilyConfig& config);
Architecture parse_ministral(const FamilyConfig& config);
Architecture parse_mistral(const FamilyConfig& config);
Architecture parse_mixtral(const FamilyConfig& config);
Architecture parse_nemotron(const FamilyConfig& config);
Architecture parse_olmo(const FamilyConfig& config);
Architecture parse_olmo2(const FamilyConfig& config);
Architecture parse_olmo3(const FamilyConfig& config);
Architecture parse_olmoe(const FamilyConfig& config);
Architecture parse_opt(const FamilyConfig& config);
Architecture parse_phi(const FamilyConfig& config);
Architecture parse_phi3(const FamilyConfig& config);
Architecture parse_qwen2(const FamilyConfig& config);
Architecture parse_qwen2_moe(const FamilyConfig& config);
Architecture parse_qwen3(const FamilyConfig& config);
Architecture parse_qwen3_moe(const FamilyConfig& config);
Architecture parse_smollm3(const FamilyConfig& config);
Architecture parse_stablelm(const FamilyConfig& config);
Architecture parse_starcoder2(const FamilyConfig& config);

// What families lend to others of their line.

/// Qwen2 and later: windows from block max_window_layers on where use_sliding_window says so.
std::vector<bool> qwen_windowed_blocks(const FamilyConfig& config, std::size_t layers);
/// Mixtures of MLPs with tensors of their own in the blocks that config.json says.
void set_qwen_mixtures(Architecture& architecture, const FamilyConfig& config, const LlamaLike& like,
                       std::size_t default_count, std::size_t default_active, std::size_t default_width);
/// Gemma: gains of 1 + w.
LlamaLike gemma_like(const FamilyConfig& config, const LlamaDefaults& defaults);
/// Gemma 2 and 3: norms on both sides, soft-caps (0: none unless config.json says), score scale, embedding scale.
Architecture build_gemma2(const FamilyConfig& config, LlamaLike like, double attention_cap, double logit_cap);
/// Granite: multipliers of embedding, scores, residual and logits.
void set_granite_multipliers(Architecture& architecture, const FamilyConfig& config);

}  // namespace nibble::model

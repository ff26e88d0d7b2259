#include "core/error.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

namespace {

// Where nothing is said all layers are state-space models, and there are experts.
void require_dense_attention(const FamilyConfig& config, std::size_t layers) {
  NIBBLE_REQUIRE(config.has("layer_types"), FormatError,
                 "{}: 'layer_types' is missing: without it no layer has attention, which alone is computed",
                 config.what());
  for (const std::string& type : config.texts("layer_types", layers))
    NIBBLE_REQUIRE(type == "attention" || type == "full_attention", FormatError,
                   "{}: 'layer_types': only attention is computed for this model_type, got '{}'", config.what(), type);
  const std::size_t experts = config.integer_or("num_local_experts", 8, 0, kMaxExperts);
  NIBBLE_REQUIRE(experts == 0, FormatError,
                 "{}: 'num_local_experts': only 0, no experts, is computed for this model_type, got {}", config.what(),
                 experts);
  for (const char* key :
       {"num_experts_per_tok", "mamba_n_heads", "mamba_n_groups", "mamba_d_state", "mamba_d_head", "mamba_d_conv",
        "mamba_expand", "mamba_chunk_size", "mamba_conv_bias", "mamba_proj_bias", "time_step_limit"})
    config.mark(key);
}

}  // namespace

// Granite 4.0 without its state-space layers and experts: the "shared" MLP is the only one, gate and up halves of one
// matrix.
Architecture parse_granitemoehybrid(const FamilyConfig& config) {
  LlamaLike like(config);
  require_dense_attention(config, like.layers);
  like.attention_bias = like.output_bias = config.boolean_or("attention_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  config.require_one_of("normalization_function", {"rmsnorm"});
  config.mark("init_method");  // of training
  config.require_one_of("position_embedding_type", {"rope", "nope"});
  const bool turns = config.text_or("position_embedding_type", "nope") == "rope";
  const std::size_t width = config.integer_or("shared_intermediate_size", 1024, 1, kMaxWidth);
  Architecture a = like.build();
  for (std::size_t i = 0; i < like.layers; ++i) {
    BlockSpec& block = a.blocks[i];
    if (!turns) block.attention.rotary.reset();
    const std::string prefix = LlamaLike::block_prefix(i) + "shared_mlp.";
    const Fused inputs{.module = prefix + "input_linear", .rows = 2 * width, .in = like.hidden};
    block.mlp->gate = part_of(inputs, Role::kGate, i, "gate", RowSet::contiguous(0, width));
    block.mlp->up = part_of(inputs, Role::kUp, i, "up", RowSet::contiguous(width, width));
    block.mlp->down = linear(Role::kDown, i, prefix + "output_linear", like.hidden, width);
  }
  set_granite_multipliers(a, config);
  a.attention_bias_key = "attention_bias";
  return a;
}

}  // namespace nibble::model

#include <cmath>

#include "core/error.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

namespace {

// "dynamic" with an alpha stretches the base once, whatever the length: base · alpha^(dims / (dims - 2)).
RotarySpec hunyuan_rotary(const FamilyConfig& config, const LlamaLike& like) {
  const char* const key = config.has("rope_scaling") ? "rope_scaling" : "rope_parameters";
  if (!config.has(key)) return config.rotary(like.head_dim, like.max_positions);
  const JsonFields fields = config.object(key);
  const std::string type = fields.text_or("rope_type", fields.text_or("type", "default"));
  const double alpha = type == "dynamic" ? fields.number_or("alpha", 0.0, 0.0, 1e9) : 0.0;
  if (alpha == 0.0) return config.rotary(like.head_dim, like.max_positions);
  NIBBLE_REQUIRE(!config.has("rope_scaling") || !config.has("rope_parameters"), FormatError,
                 "{}: expected 'rope_scaling' or 'rope_parameters', got both", config.what());
  NIBBLE_REQUIRE(like.head_dim > 2 && like.head_dim % 2 == 0, FormatError,
                 "{}: expected an even head_dim above 2, got {}", config.what(), like.head_dim);
  RotarySpec rotary;
  rotary.dims = like.head_dim;
  const double dims = static_cast<double>(rotary.dims), beside = config.number_or("rope_theta", 10000.0, 0.0, 1e15);
  rotary.base = fields.number_or("rope_theta", beside, 0.0, 1e15) * std::pow(alpha, dims / (dims - 2.0));
  for (const char* unread :
       {"beta_fast", "beta_slow", "factor", "mscale", "mscale_all_dim", "type", "original_max_position_embeddings"})
    fields.mark(unread);
  const std::vector<std::string> unknown = fields.unread();
  NIBBLE_REQUIRE(unknown.empty(), FormatError, "{}: '{}' is not known", fields.what(), unknown.front());
  return rotary;
}

// Keys that transformers does not read: those that could mean another network have one value.
void require_own_form(const FamilyConfig& config) {
  config.require_boolean("use_cla", false);
  config.require_boolean("use_qk_norm", true);
  config.require_boolean("use_rotary_pos_emb", true);
  config.require_one_of("norm_type", {"rms"});
  for (const char* of_others : {"add_classification_head", "attention_head_dim", "cla_share_factor", "class_num",
                                "dense_list", "num_experts", "org_vocab_size", "pool_type"})
    config.mark(of_others);
  for (const char* of_tokens : {"eod_token_id", "im_end_id", "im_newline_id", "im_start_id", "mask_init_id", "pad_id",
                                "sep_token_id", "text_end_id", "text_start_id"})
    config.mark(of_tokens);
}

}  // namespace

// Llama with norms of each head's q and k behind the rotary embedding.
Architecture parse_hunyuan_v1_dense(const FamilyConfig& config) {
  LlamaLike like(config, {.epsilon = 1e-5, .by_layer_type = true});
  like.rotary = hunyuan_rotary(config, like);
  like.attention_bias = like.output_bias = config.boolean_or("attention_bias", false);
  like.activation = config.activation("hidden_act", "silu");
  Architecture a = like.build();
  like.set_qk_norms(a, false, "query_layernorm", "key_layernorm");
  for (BlockSpec& block : a.blocks) block.attention.norms_behind_rotary = true;
  require_own_form(config);
  a.attention_bias_key = "attention_bias";
  return a;
}

}  // namespace nibble::model

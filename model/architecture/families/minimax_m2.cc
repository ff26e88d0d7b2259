#include "core/error.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

namespace {

// Keys that only say what is always so: transformers reads none of them.
void require_own_form(const FamilyConfig& config, std::size_t layers) {
  config.require_one_of("scoring_func", {"sigmoid"});
  config.require_one_of("qk_norm_type", {"per_layer"});
  config.require_boolean("use_qk_norm", true);
  config.require_boolean("use_routing_bias", true);
  config.integer_or("shared_intermediate_size", 0, 0, 0);
  for (const char* of_others : {"shared_moe_mode", "mlp_intermediate_size", "num_mtp_modules", "mtp_transformer_layers",
                                "use_mtp", "sliding_window"})
    config.mark(of_others);
  if (!config.has("attn_type_list")) return;
  for (const double type : config.numbers("attn_type_list", layers))
    NIBBLE_REQUIRE(type == 1.0, FormatError, "{}: 'attn_type_list': only 1, attention over all positions, is computed",
                   config.what());
}

}  // namespace

// MiniMax-M2: norms over the whole width of q and of k, the first dimensions of each head turned; Mixtral's experts,
// weighed by sigmoids whose correction decides which are chosen.
Architecture parse_minimax_m2(const FamilyConfig& config) {
  const std::size_t head_dim = config.integer_or("head_dim", 128, 1, kMaxHeadDim);
  const std::size_t turned = config.integer_within("rotary_dim", head_dim, 1, head_dim);
  LlamaLike like(
      config, {.kv_heads = 8,
               .head_dim = 128,
               .max_positions = 196608,
               .rotary = {.base = 5000000.0, .partial = static_cast<double>(turned) / static_cast<double>(head_dim)}});
  like.activation = config.activation("hidden_act", "silu");
  Architecture a = like.build();
  like.set_qk_norms(a, true);
  set_mixtral_experts(a, config, like, 256, 8);
  for (std::size_t i = 0; i < like.layers; ++i) {
    ExpertsSpec& experts = *a.blocks[i].experts;
    experts.routing = ExpertsSpec::Routing::kSigmoidThenTop;
    experts.correction =
        whole_vector(LlamaLike::block_prefix(i) + "block_sparse_moe.e_score_correction_bias", experts.experts.size());
  }
  require_own_form(config, like.layers);
  return a;
}

}  // namespace nibble::model

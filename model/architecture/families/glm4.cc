#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

// GLM with norms after both halves of a block as well.
Architecture parse_glm4(const FamilyConfig& config) {
  Architecture a = parse_glm(config);
  for (std::size_t i = 0; i < a.blocks.size(); ++i) {
    BlockSpec& block = a.blocks[i];
    const auto post_norm = [&](Role role, const char* name) {
      return norm(NormSpec::Kind::kRms, role, i, LlamaLike::block_prefix(i) + name, a.hidden,
                  block.attention_norm->epsilon);
    };
    block.attention_post_norm = post_norm(Role::kAttentionPostNorm, "post_self_attn_layernorm");
    block.mlp_post_norm = post_norm(Role::kMlpPostNorm, "post_mlp_layernorm");
  }
  return a;
}

}  // namespace nibble::model

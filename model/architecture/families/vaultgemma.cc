#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"

namespace nibble::model {

// Gemma 2 without the norms behind attention and MLP.
Architecture parse_vaultgemma(const FamilyConfig& config) {
  Architecture a = parse_gemma2(config);
  for (BlockSpec& block : a.blocks) {
    block.attention_post_norm.reset();
    block.mlp_post_norm.reset();
  }
  return a;
}

}  // namespace nibble::model

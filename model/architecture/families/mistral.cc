#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"

namespace nibble::model {

// A window over every block where config.json has one: Ministral without types of layers. Ministral 8B calls itself so,
// with types; transformers goes by this key, too.
Architecture parse_mistral(const FamilyConfig& config) {
  Architecture a = parse_ministral(config);
  if (config.has("layer_types")) a.family = "ministral";
  return a;
}

}  // namespace nibble::model

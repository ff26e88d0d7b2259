#include "model/architecture/families.h"
#include "model/architecture/text_part.h"
#include "tests/fuzz/fuzz.h"

// A model that sees holds another model's configuration.
NIBBLE_FUZZ(input) {
  nibble::model::parse_architecture(nibble::model::text_model_config(input, "input", {}).value_or(std::string(input)),
                                    "input");
}

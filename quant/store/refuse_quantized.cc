#include "quant/store/refuse_quantized.h"

#include "core/error.h"
#include "quant/store/model_weights.h"
#include "quant/store/quantization_config.h"

namespace nibble::quant {

void refuse_quantized(const model::Checkpoint& checkpoint, std::string_view what, std::string_view verb) {
  NIBBLE_REQUIRE(!parse_quantization_config(checkpoint.metadata(), config_place(checkpoint)), InvalidArgument,
                 "{} is quantized already; {} the float checkpoint it was made from", what, verb);
}

}  // namespace nibble::quant

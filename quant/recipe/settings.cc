#include "quant/recipe/settings.h"

namespace nibble::quant {

std::size_t TensorSettings::effective_group_size() const {
  switch (format) {
    case Format::kPalette:
      if (granularity == Granularity::kTensor) return 0;
      return granularity == Granularity::kChannel ? 1 : group_size.value_or(8);
    case Format::kInt4Block:
      return group_size.value_or(32);
    case Format::kUniform:
    case Format::kFloat16:
      break;
  }
  return group_size.value_or(0);
}

}  // namespace nibble::quant

#include "quant/recipe/settings.h"

namespace nibble::quant {

std::size_t TensorSettings::effective_group_size() const {
  if (has_palette() && granularity != Granularity::kChannelGroup) return granularity == Granularity::kTensor ? 0 : 1;
  return group_size.value_or(stored_as().group_size);
}

}  // namespace nibble::quant

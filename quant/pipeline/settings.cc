#include "quant/pipeline/settings.h"

#include <fmt/format.h>

#include "quant/pipeline/recipe_keys.h"

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

std::string TensorSettings::summary() const {
  const std::size_t group = effective_group_size();
  switch (format) {
    case Format::kPalette:
      if (granularity == Granularity::kChannelGroup) return fmt::format("palette {}-bit channel-group {}", bits, group);
      return fmt::format("palette {}-bit {}", bits, granularity_name(granularity));
    case Format::kUniform:
      return fmt::format("uniform {}-bit {}", bits, group == 0 ? "row" : fmt::format("block {}", group));
    case Format::kInt4Block:
      return fmt::format("int4-block {} {}", group,
                         find_recipe_key("int4_scale").print(*this).get_ref<const std::string&>());
    case Format::kFloat16:
      break;
  }
  return "float16";
}

}  // namespace nibble::quant

#include <fmt/format.h>

#include "quant/format/storage_format.h"

namespace nibble::quant {
namespace {

constexpr unsigned kBits[] = {2, 3, 4};
constexpr std::size_t kGroupSizes[] = {16, 32, 64, 128, 256};
constexpr std::string_view kKeys[] = {
    "bits",          "group_size",       "palette",     "block_scale",      "search",
    "weighting",     "shifting",         "solver",      "hessian",          "output_hessian",
    "act_order",     "damping",          "damping_by",  "static_groups",    "sequential",
    "input_scaling", "joint_iterations", "super_block", "drift_correction", "guided_inputs",
};

std::string describe(const TensorSpec& spec) {
  const std::string scales = spec.super_block != 0 ? fmt::format(" in {}", spec.super_block)
                             : spec.scale_type == ScaleType::kFloat16
                                 ? ""
                                 : fmt::format(" {} scales", scale_type_name(spec.scale_type));
  return spec.block_palette == BlockPalette::kLearned
             ? fmt::format("block-palette {}-bit {}{}", spec.bits, spec.group_size, scales)
             : fmt::format("block-palette {} {}{}", block_palette_name(spec.block_palette), spec.group_size, scales);
}

}  // namespace

constinit const StorageFormat kBlockPaletteFormat{.format = Format::kBlockPalette,
                                                  .name = "block-palette",
                                                  .coding = Coding::kBlockPalette,
                                                  .bits = kBits,
                                                  .group_size = 32,
                                                  .group_sizes = kGroupSizes,
                                                  .keys = kKeys,
                                                  .describe = describe};

}  // namespace nibble::quant

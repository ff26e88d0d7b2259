#include <fmt/format.h>

#include "quant/format/storage_format.h"

namespace nibble::quant {
namespace {

constexpr unsigned kBits[] = {2, 3, 4, 5, 6, 7, 8};
constexpr std::size_t kGroupSizes[] = {0, 16, 32, 64, 128, 256};
constexpr std::string_view kKeys[] = {
    "bits",           "group_size", "search",        "weighting",     "shifting",   "solver",     "hessian",
    "output_hessian", "act_order",  "static_groups", "damping",       "damping_by", "sequential", "drift_correction",
    "guided_inputs",  "zero_point", "uniform_scale", "input_scaling", "super_block"};

std::string describe(const TensorSpec& spec) {
  return fmt::format("uniform {}-bit {}{}", spec.bits,
                     spec.group_size == 0 ? "row" : fmt::format("block {}", spec.group_size),
                     spec.super_block == 0 ? "" : fmt::format(" in {}", spec.super_block));
}

}  // namespace

constinit const StorageFormat kUniformFormat{.format = Format::kUniform,
                                             .name = "uniform",
                                             .coding = Coding::kBlocks,
                                             .bits = kBits,
                                             .group_size = 0,
                                             .group_sizes = kGroupSizes,
                                             .keys = kKeys,
                                             .describe = describe};

}  // namespace nibble::quant

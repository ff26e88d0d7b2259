#include <fmt/format.h>

#include "quant/format/storage_format.h"

namespace nibble::quant {
namespace {

constexpr unsigned kBits[] = {4};
constexpr std::size_t kGroupSizes[] = {16, 32, 64, 128, 256};
constexpr std::string_view kKeys[] = {"group_size", "search",         "weighting",        "shifting",      "solver",
                                      "hessian",    "output_hessian", "act_order",        "static_groups", "damping",
                                      "damping_by", "sequential",     "drift_correction", "guided_inputs", "int4_scale",
                                      "zero_point", "input_scaling"};

std::string describe(const TensorSpec& spec) { return fmt::format("int4-block {}", spec.group_size); }

}  // namespace

constinit const StorageFormat kInt4BlockFormat{.format = Format::kInt4Block,
                                               .name = "int4-block",
                                               .coding = Coding::kBlocks,
                                               .bits = kBits,
                                               .group_size = 32,
                                               .group_sizes = kGroupSizes,
                                               .keys = kKeys,
                                               .describe = describe};

}  // namespace nibble::quant

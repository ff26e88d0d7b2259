#include "quant/format/storage_format.h"

namespace nibble::quant {
namespace {

constexpr unsigned kBits[] = {16};

}  // namespace

constinit const StorageFormat kFloat16Format{.format = Format::kFloat16,
                                             .name = "float16",
                                             .coding = {},
                                             .bits = kBits,
                                             .group_size = 0,
                                             .group_sizes = {},
                                             .keys = {},
                                             .describe = [](const TensorSpec&) -> std::string { return "float16"; }};

}  // namespace nibble::quant

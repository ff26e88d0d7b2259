#pragma once

#include <array>

#include "core/text/choice.h"
#include "quant/store/model_weights.h"

namespace nibble::quant {

/// The words for how the products of a loaded model are made: "reference" decodes from the file whatever the number of
/// tokens; the others are those of packed products.
inline constexpr std::array<Choice<LoadOptions>, 4> kComputeModes = {
    {{"reference", {.packed = false}},
     {"exact", {.packed = true, .compute = Compute::kExact}},
     {"bf16", {.packed = true, .compute = Compute::kBf16}},
     {"int8", {.packed = true, .compute = Compute::kInt8}}}};

}  // namespace nibble::quant

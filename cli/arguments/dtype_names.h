#pragma once

#include <array>

#include "core/matrix/dtype.h"
#include "core/text/choice.h"

namespace nibble::cli {

/// Floats as --dtype calls them.
inline constexpr std::array<Choice<DType>, 3> kDtypes{
    {{"float16", DType::kF16}, {"bfloat16", DType::kBF16}, {"float32", DType::kF32}}};

}  // namespace nibble::cli

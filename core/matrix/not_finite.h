#pragma once

#include <string_view>

#include "core/matrix/dtype.h"

namespace nibble {

/// What a message says of a value that is not finite once it is rounded to `dtype`, F16 or BF16: "is too large for
/// float16 (at most 65504)", or "is no finite number" where it was none before.
std::string_view why_not_finite(double value, DType dtype);

}  // namespace nibble

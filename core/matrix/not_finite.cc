#include "core/matrix/not_finite.h"

#include <cmath>

namespace nibble {

std::string_view why_not_finite(double value, DType dtype) {
  if (!std::isfinite(value)) return "is no finite number";
  return dtype == DType::kF16 ? "is too large for float16 (at most 65504)" : "is too large for bfloat16";
}

}  // namespace nibble

#pragma once

#include <cstddef>
#include <span>

#include "core/matrix/dtype.h"

namespace nibble::quant {

/// Rounds the entries of palette number `group`, half to even, to values that `dtype` stores: float16 values (kF16),
/// floats as they are (kF32), or integers from -127 to 127 times a unit of the palette's own (kI8), the float16 nearest
/// to max |entry| / 127, 2^-24 at least. Ascending entries stay ascending.
///
/// Throws NumericalError naming group and entry for what the type cannot hold; InvalidArgument for other types.
void round_palette(std::span<float> entries, DType dtype, std::size_t group);

}  // namespace nibble::quant

#pragma once

namespace nibble {

/// Whether a factor of a product is used as stored or transposed.
enum class Transpose { kNo, kYes };

}  // namespace nibble

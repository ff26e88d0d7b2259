#pragma once

#include <cstdint>

namespace nibble {

/// The position of a token in the vocabulary.
using TokenId = std::uint32_t;

}  // namespace nibble

#pragma once

#include <cstdint>

namespace nibble::model {

/// The position of a token in the vocabulary.
using TokenId = std::uint32_t;

}  // namespace nibble::model

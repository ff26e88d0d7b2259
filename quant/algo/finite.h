#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace nibble::quant {

/// The index of the first NaN or infinity, if there is one. Runs near memory speed.
std::optional<std::size_t> first_not_finite(std::span<const float> values);

}  // namespace nibble::quant

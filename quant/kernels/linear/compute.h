#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "core/text/choice.h"

namespace nibble::quant {

/// The arithmetic of a packed product. Weights are always read packed; what differs is what is multiplied.
///
/// | mode | weights | activations | error of y_r beyond the format's |
/// |---|---|---|---|
/// | exact | just as the format decodes them, float32 | float32 | rounding of float32 sums |
/// | bf16 | rounded to bfloat16 | rounded to bfloat16 | + (2^-7 + 2^-16) sum_j abs(w_rj x_j), of normal numbers |
/// | int8 | palette entries in 8 bits, codes of blocks as they are | 8 bits, a scale per 32 inputs | + sum_j (s/2
/// abs(w_rj) + d/2 abs(x_j)) |
///
/// where s = max abs(x) over the 32 inputs / 127, and d = row scale · (highest - lowest palette entry) / 255, 0 for
/// blocks and for windowed palettes of integers. bf16 holds for more than kMostExactTokens tokens, of any weight: fewer
/// are bound by memory, and rounding would only cost. int8 holds for packed weights but palettes of 7 and 8 bits (both
/// are kept as 8), windows of more than 8 and palettes whose values lie more than 2^96 apart, for any number of tokens,
/// and with the same integers on every processor; elsewhere products are exact. kernel_name() tells.
enum class Compute { kExact, kBf16, kInt8 };

/// What users call them.
inline constexpr std::array<Choice<Compute>, 3> kComputes{
    {{"exact", Compute::kExact}, {"bf16", Compute::kBf16}, {"int8", Compute::kInt8}}};

inline std::string_view compute_name(Compute compute) { return name_of(compute, kComputes); }
/// Empty for an unknown name.
inline std::optional<Compute> compute_from_name(std::string_view name) { return find_choice(name, kComputes); }

}  // namespace nibble::quant

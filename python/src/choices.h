#pragma once

#include <array>

#include "core/matrix/dtype.h"
#include "core/text/choice.h"
#include "quant/algo/blocks/block_rounding.h"
#include "quant/algo/palettes/row_scales.h"
#include "quant/algo/palettes/scaled_palette.h"

// The words that Python's arguments are given as; recipes have the same (docs/recipe.md).
namespace nibble::python {

inline constexpr std::array<Choice<DType>, 3> kPaletteDtypes = {
    {{"float16", DType::kF16}, {"float32", DType::kF32}, {"int8", DType::kI8}}};
inline constexpr std::array<Choice<quant::BlockScale>, 4> kBlockScales = {
    {{"extreme-8", quant::BlockScale::kExtreme},
     {"absmax-7", quant::BlockScale::kAbsmax},
     {"absmax-7.5", quant::BlockScale::kAbsmaxHalf},
     {"minmax", quant::BlockScale::kMinmax}}};
inline constexpr std::array<Choice<quant::RowScale>, 2> kRowScales = {
    {{"std", quant::RowScale::kStd}, {"absmax", quant::RowScale::kAbsmax}}};
inline constexpr std::array<Choice<quant::ScaleSign>, 3> kScaleSigns = {
    {{"plain", quant::ScaleSign::kPlain}, {"flip", quant::ScaleSign::kFlip}, {"search", quant::ScaleSign::kSearch}}};

}  // namespace nibble::python

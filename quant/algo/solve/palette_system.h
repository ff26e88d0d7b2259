#pragma once

#include "core/matrix/matrix_view.h"
#include "quant/algo/palettes/palette_weight.h"

namespace nibble::quant {

/// The normal equations of update_palettes() (codebook_update.h), solved by conjugate gradients from the palettes as
/// they are, for all groups side by side: each step is a product with H, and one with H_O where `h_out` is given, which
/// makes one system of all groups. (groups, k), not rounded.
///
/// `slopes`: coupled_slopes() of the errors of the stored weight, or empty, where they cost a step's products; released
/// when read. `least_step`: a system ends with the step that gains less than this share of all before. Shapes are to be
/// those of codebook_update.h. Memory: as there.
template <class Code>
[[nodiscard]] Matrix<double> solve_palette_system(MatrixView<const float> w, MatrixView<const float> h,
                                                  MatrixView<const float> h_out, const BasicPaletteWeight<Code>& weight,
                                                  Matrix<float> slopes, double least_step);

}  // namespace nibble::quant

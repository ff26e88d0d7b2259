#pragma once

#include <span>
#include <string>

#include "core/matrix/matrix_view.h"
#include "quant/algo/kmeans/weighted_values.h"
#include "quant/algo/palettes/palettize.h"
#include "quant/format/quantized_tensor.h"
#include "quant/recipe/settings.h"
#include "quant/tensor/weight_parts.h"

namespace nibble::quant {

/// The weights F of squared errors (out, in) for w, as the recipe's `weighting` says; empty for none. `hessian`:
/// F_ij = [H_O]_ii H_jj, what an error of this weight alone costs under the Hessians that its code is solved under
/// (their damping, a share of each diagonal, does not change it; kOutputDamping is added to H_O).
Matrix<float> sensitivity_weights(const Matrix<float>& w, Weighting weighting, const WeightStatistics& statistics);

/// `format: palette` for a finite weight w (out, in): outliers set apart, palettes (of scalars, with or without row
/// scales, of vectors, or windowed) fitted to the rest, codes chosen or solved for. Sets `made`'s figures of the
/// method. Throws NumericalError as the methods do.
QuantizedTensor palette_tensor(const std::string& name, const Matrix<float>& w, const TensorSettings& settings,
                               const WeightStatistics& statistics, WeightParts& made);

/// The palette that `values`, all of a weight with their sensitivities, are given by settings for one palette and
/// nothing else (one_palette(), row_slices.h).
SharedPalette shared_palette(const WeightedValues& values, const TensorSettings& settings);

/// `format: palette` for rows w of a weight whose palette is known: the nearest codes.
QuantizedTensor tensor_of_palette(const std::string& name, const Matrix<float>& w, const TensorSettings& settings,
                                  std::span<const float> palette);

}  // namespace nibble::quant

#pragma once

#include <cstdint>

#include "core/machine/large_buffer.h"
#include "core/matrix/matrix_view.h"

namespace nibble::quant {

/// Places of a matrix (out, in), row by row: those of row i are columns[rows[i]] … columns[rows[i + 1] - 1], ascending.
struct Outliers {
  LargeVector<std::int32_t> rows;  ///< (out + 1)
  LargeVector<std::int32_t> columns;
};

/// Places of a weight and what they decode to, in the order of `places.columns`: kept beside palettes and codes.
struct SparseValues {
  Outliers places;
  LargeVector<float> values;
  bool empty() const { return values.empty(); }
};

/// The weights to be kept apart from a palette, chosen over the whole tensor in SqueezeLLM's order (arXiv:2306.07629):
/// first floor(sensitive · out · in) of the most sensitive ones, then, of the rest, floor(large · out · in) of the
/// largest in magnitude. Among equals the first in row order. (SqueezeLLM bounds magnitudes by a multiple of the
/// quartiles' distance, tuned by hand to a share; here the share is given.)
///
/// `sensitivities` (out, in): needed only for sensitive > 0; or what else is to be large, as the error that keeping a
/// weight saves (SpQR, arXiv:2306.03078). Shares in [0, 1), their sum below 1.
/// Throws InvalidArgument for shapes and shares, and for more places than 2^31 - 1. Cost: two partial sorts. Memory: 9
/// bytes per weight.
[[nodiscard]] Outliers find_outliers(MatrixView<const float> w, MatrixView<const double> sensitivities,
                                     double sensitive, double large);

/// w (out, in) at the places.
[[nodiscard]] SparseValues values_at(Outliers places, MatrixView<const float> w);

/// Puts 0 where the outliers are: into a weight, so that a palette codes them by its entry nearest 0, and into its
/// sensitivities, so that they have no say in the palette.
void mask_outliers(const Outliers& outliers, MatrixView<float> values);

}  // namespace nibble::quant

#pragma once

#include <memory>

#include "core/matrix/linear_op.h"
#include "model/checkpoint/checkpoint.h"

namespace nibble::model {

/// Inputs that share a scale.
inline constexpr std::size_t kMxfp4Group = 32;

/// Rows of one scale: (i, j) has scale (i / rows, j / cols), row-major over ceil(columns / cols) scales a row.
struct ScaleBlock {
  std::size_t rows = 1, cols = 1;
};

/// The matrix (out, in) of `codes` (out, in / 32, 16) U8 and `scales` (out, in / 32) U8, as in narrow_tensors.h,
/// decoded where it lies. value = E2M1 · 2^(s - 127), exact in float, or infinite beyond its range; NaN for s = 255.
/// Requires these shapes. decode_rows() throws FormatError when a file shrank.
std::shared_ptr<const WeightSource> make_mxfp4_source(std::shared_ptr<const Checkpoint> checkpoint, TensorView codes,
                                                      TensorView scales);

/// The matrix of `codes`, F8_E4M3 or F8_E5M2, stored (out, in) or with `transposed` (in, out), decoded where it lies:
/// value = code · scale, rounded once to float. `block` is of the matrix as it is stored. NaN codes and scales give
/// NaN. Requires a matrix and as many scales as it has blocks. Memory   the scales, as floats.
std::shared_ptr<const WeightSource> make_fp8_source(std::shared_ptr<const Checkpoint> checkpoint, TensorView codes,
                                                    const TensorView& scales, ScaleBlock block, bool transposed);

}  // namespace nibble::model

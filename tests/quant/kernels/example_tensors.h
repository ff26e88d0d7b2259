#pragma once

#include <string>
#include <vector>

#include "core/matrix/matrix_view.h"
#include "core/random.h"
#include "quant/format/quantized_tensor.h"

namespace nibble::test {

/// What a random quantized weight should look like.
struct TensorWish {
  quant::TensorSpec spec;
  bool row_scale = false, zero_points = false, integers = false;
  double outliers = 0.0;      ///< share of weights
  bool byte_palette = false;  ///< palettes of integers from -100 to 155, both taken: in 8 bits they stay what they are
};

/// A random weight as it would be stored. With `integers`, palettes hold small integers and scales powers of two, so
/// that float sums of integer activations are exact.
quant::QuantizedTensor random_tensor(const TensorWish& wish, Random& random);

/// Block palettes of (rows, cols): every palette, scale type and length of blocks that kernels know. With `integers`,
/// without NF4, whose entries are none.
std::vector<TensorWish> block_palette_wishes(std::size_t rows, std::size_t cols, bool integers);

/// (rows, cols), normal; or `integers` from -3 to 3.
Matrix<float> random_matrix(std::size_t rows, std::size_t cols, bool integers, Random& random);

/// Integers that 8 bits hold as they are: 127 in every block (of 16, too) makes its scale 1.
Matrix<float> byte_activations(std::size_t tokens, std::size_t cols, Random& random);

/// For messages: "palette 4 bits 33 x 70 group 8 scaled".
std::string describe(const TensorWish& wish);

}  // namespace nibble::test

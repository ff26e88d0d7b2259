#pragma once

#include <vector>

#include "core/matrix_view.h"

namespace nibble::quant {

/// Activations as a kernel reads them: (tokens, stride) floats, inputs padded with zeros.
struct Activations {
  std::vector<float> values;
  std::vector<float> block_sums;  ///< (tokens, blocks of 32 inputs), if asked for
  std::size_t stride = 0;
};

/// x padded to `padded` inputs. With `by_lanes`, every 64 inputs are reordered as R = 1 panels need them: input
/// 4 l + b of the 64 goes to place 16 b + l (code_layout.h). `padded` is then a multiple of 64.
void arrange_activations(MatrixView<const float> x, std::size_t padded, bool by_lanes, bool with_sums,
                         Activations& arranged);

}  // namespace nibble::quant

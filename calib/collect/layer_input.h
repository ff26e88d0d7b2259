#pragma once

#include "core/matrix/matrix_view.h"

namespace nibble::calib {

/// What a layer sees of one batch, and what its outputs are added to, where that was asked for.
struct LayerInput {
  Matrix<float> x;       ///< (tokens, in)
  Matrix<float> stream;  ///< (tokens, hidden): the residual stream when the layer is reached (Hooks::until); or empty
};

}  // namespace nibble::calib

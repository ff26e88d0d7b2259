#pragma once

#include "core/matrix/matrix_view.h"

namespace nibble::calib {

/// What a layer sees of one batch.
struct LayerInput {
  Matrix<float> x;       ///< (tokens, in)
  Matrix<float> stream;  ///< (tokens, hidden): the residual stream when the layer is reached (Hooks::until)
};

}  // namespace nibble::calib

#pragma once

#include <functional>
#include <string>

#include "core/matrix_view.h"

namespace nibble::model {

/// Callbacks during forward and backward. An empty function is never called and costs nothing. `module` is the
/// checkpoint name of the linear layer without ".weight", and "lm_head" for the head, tied or not. Views are valid only
/// during the call; rows are those of the batch, except at the head, which is called once per chunk of the rows asked
/// for. Layers that share an input (q, k, v; gate, up) are each reported. Called on the caller's thread, one at a time.
template <class T>
struct Hooks {
  /// X (tokens, in), as it enters the linear layer. Forward only: recomputation during backward does not report it.
  std::function<void(const std::string& module, MatrixView<const T> x)> on_linear_input;
  /// X (tokens, in) and dL/dY (tokens, out) of the same layer, during the backward pass. Its weight gradient is dYᵀ X.
  std::function<void(const std::string& module, MatrixView<const T> x, MatrixView<const T> dy)> on_linear_gradient;
};

}  // namespace nibble::model

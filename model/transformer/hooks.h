#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/matrix/matrix_view.h"

namespace nibble::model {

/// Which rows of the batch a hook is shown: all of them, in order, where `indices` is empty; otherwise indices[i] is
/// the batch row of row i (ascending): the tokens that an expert was given, the rows that the head was asked for.
struct HookRows {
  std::span<const std::size_t> indices;
  std::size_t operator()(std::size_t i) const { return indices.empty() ? i : indices[i]; }
};

/// Callbacks during forward and backward. An empty function is never called and costs nothing. `module` is the linear
/// layer's name (Parameter::module), and "lm_head" for the head, tied or not. Views are valid only during the call. The
/// head is reported once per chunk of the rows asked for; an expert once per batch, and not at all if no row chose it.
/// Layers that share an input (q, k, v; gate, up) are each reported. Called on the caller's thread, one at a time.
template <class T>
struct Hooks {
  /// X (tokens, in), as it enters the linear layer. Forward only: recomputation during backward does not report it.
  std::function<void(const std::string& module, MatrixView<const T> x, const HookRows& rows)> on_linear_input;
  /// X (tokens, in) and dL/dY (tokens, out) of the same layer, during the backward pass. Its weight gradient is dYᵀ X.
  std::function<void(const std::string& module, MatrixView<const T> x, MatrixView<const T> dy, const HookRows& rows)>
      on_linear_gradient;
  /// Forward only, where it is not empty: the pass ends as soon as the input of this layer was reported, or those of
  /// several, each in another expert of one mixture. Experts that do not lead there are passed over, and what the pass
  /// was to give is unspecified, but for the stream of forward_block(): that is what it was when the layer was reached,
  /// in front of the attention's output or the MLP's last layer the stream that its output is added to (but for a
  /// parallel block without any norm, whose MLP sees the stream without the attention's output).
  std::vector<std::string> until = {};

  bool ends_at(const std::string& module) const { return std::find(until.begin(), until.end(), module) != until.end(); }
};

}  // namespace nibble::model

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/matrix_view.h"
#include "model/architecture/rotary.h"
#include "model/transformer/scalar.h"

namespace nibble::model {

/// Rotary position embedding: elements i and i + head_dim/2 of every head turn by position * frequency[i].
/// Sines and cosines are made in double, once for each position that occurs: head_dim * sizeof(real) bytes each.
template <class T>
class Rotary {
 public:
  Rotary(const RotarySpec& spec, std::size_t head_dim);
  enum class Direction { kForward, kBackward };
  /// Turns every head of x (tokens, heads * head_dim) in place; row t stands at positions[t]. kBackward turns back,
  /// which is also the gradient's way.
  void rotate(MatrixView<T> x, std::span<const std::size_t> positions, Direction direction);

 private:
  void extend_to(std::size_t positions);

  std::size_t head_dim_;
  std::vector<double> frequencies_;
  std::vector<RealOf<T>> table_;  // per position: head_dim/2 cosines, then as many sines
};

}  // namespace nibble::model

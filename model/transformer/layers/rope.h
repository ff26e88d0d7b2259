#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/matrix_view.h"
#include "model/transformer/config.h"
#include "model/transformer/scalar.h"

namespace nibble::model {

/// Angles per position, in radians, of the head_dim / 2 rotary pairs: theta^(-2i / head_dim), with the scaling of
/// Llama 3.1 where configured (wavelengths beyond original_context / low_frequency_factor are stretched by factor,
/// those below original_context / high_frequency_factor kept, those between blended).
std::vector<double> rotary_frequencies(const Config& config);

/// Rotary position embedding: elements i and i + head_dim/2 of every head turn by position * frequency[i].
/// Sines and cosines are made in double, once for each position that occurs: head_dim * sizeof(real) bytes each.
template <class T>
class Rotary {
 public:
  explicit Rotary(const Config& config);
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

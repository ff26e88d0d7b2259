#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/matrix/matrix_view.h"
#include "model/architecture/rotary.h"
#include "model/transformer/layers/layout.h"
#include "model/transformer/scalar.h"

namespace nibble::model {

/// Rotary position embedding of one RotarySpec: pair i of the first `dims` elements of every head becomes
///   (a, b) -> magnitude · (a cos φ - b sin φ, b cos φ + a sin φ),   φ = position · frequency[i].
/// Sines and cosines are made in double and kept for the positions of one call, which all blocks share: dims ·
/// sizeof(real) bytes each; a call within these positions makes none. Frequencies that depend on how far a sequence
/// reaches are chosen for each sequence of a call by its last position; keys that a cache keeps stay as they were
/// turned.
template <class T>
class Rotary {
 public:
  explicit Rotary(const RotarySpec& spec) : spec_(spec) {}
  const RotarySpec& spec() const { return spec_; }
  /// kBackward is the gradient's way: the transposed matrix, magnitude included.
  enum class Direction { kForward, kBackward };
  /// Turns every head of x (tokens, heads * head_dim) in place; rows and positions are those of `layout`. Requires
  /// dims <= head_dim.
  void rotate(MatrixView<T> x, std::size_t head_dim, const Layout& layout, Direction direction);
  /// Bytes of the table.
  std::size_t table_bytes() const { return table_.size() * sizeof(RealOf<T>); }

 private:
  /// The table holds positions [begin, end) with the frequencies of a sequence that reaches `length` then.
  void make_table(std::size_t begin, std::size_t end, std::size_t length);
  void rotate_rows(MatrixView<T> x, std::size_t head_dim, std::span<const std::size_t> positions, std::size_t length,
                   Direction direction);

  RotarySpec spec_;
  std::size_t begin_ = 0, end_ = 0, length_ = 0;  // what the table holds
  std::vector<RealOf<T>> table_;                  // per position: dims/2 cosines, then as many sines
};

}  // namespace nibble::model

#pragma once

#include <cstddef>
#include <cstdint>

#include "core/matrix/matrix_view.h"
#include "model/transformer/layers/attention.h"

namespace nibble::model {

/// The keys and values of one sequence, as a block sees them: every layer hands over its new rows and gets attention
/// over all that is kept. How they are laid out and in which type is the cache's own business (cache/).
template <class T>
class KvCache {
 public:
  virtual ~KvCache() = default;
  /// How many positions fit behind those that count already.
  virtual std::size_t room() const = 0;
  /// The position of the next token.
  std::size_t length() const { return length_; }
  /// Keeps k and v (rows, kv_width), keys after the rotary embedding, as positions length() … of `layer`, and sets
  /// out (rows, q_width) to the attention of q over them and all positions kept before. Requires rows <= room().
  virtual void attend(std::size_t layer, const AttentionShape& shape, MatrixView<const T> q, MatrixView<const T> k,
                      MatrixView<const T> v, MatrixView<T> out, Attention how) = 0;
  /// The first `count` of the positions that every layer kept last now count; the others are forgotten.
  virtual void advance(std::size_t count) { length_ += count; }
  virtual void reset() { length_ = 0; }
  /// Memory of keys, values and scales.
  virtual std::uint64_t bytes() const = 0;

 private:
  std::size_t length_ = 0;
};

}  // namespace nibble::model

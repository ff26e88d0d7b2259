#pragma once

#include <memory>
#include <span>

#include "core/linear_op.h"
#include "core/matrix_view.h"
#include "model/transformer/transformer.h"

namespace nibble::model {

/// Vectors of tokens, plus those of positions where they are learned (GPT-2). Rows are decoded as they are needed.
template <class T>
class Embedding {
 public:
  /// `positions` may be null.
  Embedding(std::shared_ptr<const WeightSource> tokens, std::shared_ptr<const WeightSource> positions)
      : tokens_(std::move(tokens)), positions_(std::move(positions)) {}
  /// x (tokens, hidden): row t = token vector + position vector. Requires ids and positions in range.
  void forward(std::span<const TokenId> tokens, std::span<const std::size_t> positions, MatrixView<T> x) const;
  bool learned_positions() const { return positions_ != nullptr; }
  void release() const;

 private:
  std::shared_ptr<const WeightSource> tokens_, positions_;
};

}  // namespace nibble::model

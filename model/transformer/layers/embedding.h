#pragma once

#include <memory>
#include <optional>
#include <span>

#include "core/matrix/linear_op.h"
#include "core/matrix/matrix_view.h"
#include "model/transformer/layers/norm.h"
#include "model/transformer/transformer.h"

namespace nibble::model {

/// Vectors of tokens, plus those of positions where they are learned, normalised where there is a norm:
///   x = norm(scale · token vector + vector of position + offset).
/// Rows are decoded as they are needed.
template <class T>
class Embedding {
 public:
  /// `positions` may be null.
  Embedding(std::shared_ptr<const WeightSource> tokens, std::shared_ptr<const WeightSource> positions,
            std::size_t position_offset, double scale, std::optional<Norm<T>> norm)
      : tokens_(std::move(tokens)),
        positions_(std::move(positions)),
        position_offset_(position_offset),
        scale_(scale),
        norm_(std::move(norm)) {}
  /// x (tokens, hidden). Requires ids and positions in range.
  void forward(std::span<const TokenId> tokens, std::span<const std::size_t> positions, MatrixView<T> x) const;
  bool learned_positions() const { return positions_ != nullptr; }
  void release() const;

 private:
  std::shared_ptr<const WeightSource> tokens_, positions_;
  std::size_t position_offset_;
  double scale_;
  std::optional<Norm<T>> norm_;
};

}  // namespace nibble::model

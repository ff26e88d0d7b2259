#pragma once

#include <span>

#include "core/machine/thread_pool.h"
#include "core/matrix/matrix_view.h"
#include "model/architecture/architecture.h"
#include "model/transformer/scalar.h"

namespace nibble::model {

/// Rows of q become those of later positions' sharper attention: row r is multiplied by growth.at(positions[r]), on
/// all threads. The gradient's way is the same.
template <class T>
void grow_queries(MatrixView<T> q, const QueryGrowth& growth, std::span<const std::size_t> positions) {
  if (growth.by == 0.0) return;
  parallel_for_tiles(q.rows(), 16, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      if (positions[r] < growth.from) continue;
      const auto factor = static_cast<RealOf<T>>(growth.at(positions[r]));
      for (T& value : q.row(r)) value *= factor;
    }
  });
}

}  // namespace nibble::model

#pragma once

#include <cstddef>
#include <vector>

#include "model/transformer/transformer.h"

namespace nibble::model {

/// Which rows belong to which sequence, and where they stand in it. With a cache there is one sequence, whose first row
/// stands at position `past`.
struct Layout {
  std::vector<std::size_t> starts;     ///< sequence s is rows [starts[s], starts[s + 1])
  std::vector<std::size_t> positions;  ///< of each row

  std::size_t sequences() const { return starts.size() - 1; }
  std::size_t rows() const { return positions.size(); }
  /// Positions up to the last one of sequence s; 0 for an empty one.
  std::size_t reach(std::size_t s) const { return starts[s] == starts[s + 1] ? 0 : positions[starts[s + 1] - 1] + 1; }
};

/// Throws InvalidArgument for an id outside the vocabulary, with its index.
void check_tokens(const Architecture& architecture, std::span<const TokenId> tokens);
/// Checks `batch` against `config` (token ids, shape of starts, learned positions). Throws InvalidArgument.
Layout layout_of(const Architecture& architecture, const Batch& batch);
/// One sequence of `tokens` behind `past` others. Throws InvalidArgument as above.
Layout layout_behind(const Architecture& architecture, std::span<const TokenId> tokens, std::size_t past);

}  // namespace nibble::model

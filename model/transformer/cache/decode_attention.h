#pragma once

#include <cstddef>

#include "core/matrix/matrix_view.h"
#include "model/transformer/cache/kv_store.h"
#include "model/transformer/layers/attention.h"

namespace nibble::model {

/// Attention of the newest few positions over a cache that is decoded in registers; keys stand in blocks of kKeyBlock.
/// `past` positions are stored; k and v (queries, kv_width) are stored behind them on the way, and out (queries,
/// q_width) is set, as AttentionShape says. Positions count from the first one in the store.
///
/// Tasks are (key-value head, 256 keys), so that one query keeps many threads busy; scores exist for one task at a
/// time, whose query heads share the loads. Keys before the window of the first query are left alone, up to the 32
/// that begin with a block. What tasks found is put together in ascending order, so the number of
/// threads changes no bit. Allocates nothing once its scratch has grown.
template <class Stored>
void decode_attention(const AttentionShape& shape, MatrixView<const float> q, MatrixView<const float> k,
                      MatrixView<const float> v, ColumnStore<float, Stored>& keys, RowStore<float, Stored>& values,
                      std::size_t past, MatrixView<float> out);

/// Up to how many queries decode_attention() is the quicker way: more of them make matrix products worth it.
inline constexpr std::size_t kDecodeQueries = 8;

}  // namespace nibble::model

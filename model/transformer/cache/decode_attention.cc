#include "model/transformer/cache/decode_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/checked_math.h"
#include "core/machine/thread_pool.h"
#include "model/transformer/cache/attention_kernels.h"
#include "model/transformer/layers/attention_tiles.h"
#include "model/transformer/row_ops.h"

namespace nibble::model {
namespace {

namespace kernels = attention_kernels;

constexpr std::size_t kPart = 8 * kernels::kKeyBlock;

template <class Stored>
const kernels::Kernels<Stored>& kernels_for() {
  if constexpr (std::is_same_v<Stored, float>)
    return kernels::active().f32;
  else if constexpr (std::is_same_v<Stored, Float16Bits>)
    return kernels::active().f16;
  else
    return kernels::active().int8;
}

template <class Value>
Value* grown(std::vector<Value>& buffer, std::size_t size) {
  if (buffer.size() < size) buffer.resize(size);
  return buffer.data();
}

/// What the parts found, for every (query, head, part): the largest score, and relative to it the sums of
/// exp(score - largest) and of exp(score - largest) v.
class Parts {
 public:
  Parts(const AttentionShape& shape, std::size_t queries, std::size_t parts) : shape_(shape), parts_(parts) {
    thread_local std::vector<float> largest, sums;  // grown once and kept by the thread that calls
    thread_local std::vector<double> totals;
    const std::size_t count = queries * shape.heads * parts;
    largest_ = grown(largest, count);
    totals_ = grown(totals, count);
    sums_ = grown(sums, count * shape.head_dim);
  }
  std::size_t count() const { return parts_; }
  float& largest(std::size_t query, std::size_t head, std::size_t part) const {
    return largest_[index(query, head, part)];
  }
  double& total(std::size_t query, std::size_t head, std::size_t part) const {
    return totals_[index(query, head, part)];
  }
  /// The sums (heads, head_dim) of the heads from `head` on.
  kernels::FloatRows sums(std::size_t query, std::size_t head, std::size_t heads, std::size_t part) const {
    return {sums_ + index(query, head, part) * shape_.head_dim, heads, parts_ * shape_.head_dim};
  }
  /// A part that the query does not see.
  void leave_out(std::size_t query, std::size_t head, std::size_t part) const {
    largest(query, head, part) = -std::numeric_limits<float>::infinity();
    total(query, head, part) = 0.0;
    std::fill_n(sums(query, head, 1, part).values, shape_.head_dim, 0.0f);
  }
  /// out = all parts together, divided by the total of their weights. What is kept of the parts is used up.
  void join(std::size_t query, std::size_t head, float* out) const {
    float* weights = &largest(query, head, 0);
    const float most = max_real(weights, parts_);
    double total_weight = shape_.sinks.empty() ? 0.0 : std::exp(shape_.sinks[head] - static_cast<double>(most));
    if (parts_ == 1) return scaled(sums(query, head, 1, 0).values, 1.0 / (total_weight + total(query, head, 0)), out);
    exp_row<float>(weights, weights, parts_, most);
    for (std::size_t p = 0; p < parts_; ++p) total_weight += static_cast<double>(weights[p]) * total(query, head, p);
    for (std::size_t p = 0; p < parts_; ++p)
      weights[p] = static_cast<float>(static_cast<double>(weights[p]) / total_weight);
    std::fill_n(out, shape_.head_dim, 0.0f);
    kernels::active().f32.add_weighted({weights, 1, parts_},
                                       {sums(query, head, 1, 0).values, nullptr, parts_, shape_.head_dim},
                                       {out, 1, shape_.head_dim});
  }

 private:
  void scaled(const float* x, double factor, float* y) const {
    const float rounded = static_cast<float>(factor);
    for (std::size_t i = 0; i < shape_.head_dim; ++i) y[i] = x[i] * rounded;
  }
  std::size_t index(std::size_t query, std::size_t head, std::size_t part) const {
    return (query * shape_.heads + head) * parts_ + part;
  }
  const AttentionShape& shape_;
  std::size_t parts_;
  float *largest_, *sums_;
  double* totals_;
};

/// The keys of one key-value head that one query sees of a part: those from `skipped` on of `keys`, which begin with a
/// block at `first`.
template <class Stored>
struct PartKeys {
  kernels::KeyBlocks<Stored> keys;
  kernels::Rows<Stored> values;  ///< of the keys that are seen
  std::size_t first, skipped;
};

/// The heads of query `query`, at `position`, that read one key-value head, over one part of its keys.
template <class Stored>
void run_part(const AttentionShape& shape, const float* q, const PartKeys<Stored>& seen, const Parts& parts,
              std::size_t query, std::size_t position, std::size_t kv_head, std::size_t part) {
  const std::size_t dim = shape.head_dim, group = shape.heads / shape.kv_heads, first_head = kv_head * group,
                    n = seen.keys.n - seen.skipped;
  thread_local std::vector<float> memory;
  float* scores = grown(memory, group * kPart);
  kernels_for<Stored>().scores({q, group, dim}, seen.keys, attention_scale<float>(shape), {scores, group, kPart});
  scores += seen.skipped;
  const kernels::FloatRows sums = parts.sums(query, first_head, group, part);
  for (std::size_t head = 0; head < group; ++head) {
    float* row = scores + head * kPart;
    finish_scores(shape, first_head + head, position, seen.first + seen.skipped, row, n);
    const float largest = max_real(row, n);
    parts.largest(query, first_head + head, part) = largest;
    parts.total(query, first_head + head, part) = exp_row<float>(row, row, n, largest);
    std::fill_n(sums.values + head * sums.stride, dim, 0.0f);
  }
  kernels_for<Stored>().add_weighted({scores, group, kPart}, seen.values, sums);
}

}  // namespace

template <class Stored>
void decode_attention(const AttentionShape& shape, MatrixView<const float> q, MatrixView<const float> k,
                      MatrixView<const float> v, ColumnStore<float, Stored>& keys, RowStore<float, Stored>& values,
                      std::size_t past, MatrixView<float> out) {
  const std::size_t queries = q.rows(), end = past + queries, dim = shape.head_dim,
                    group = shape.heads / shape.kv_heads;
  // The parts begin with the block that holds the first key seen.
  const std::size_t start = first_visible(shape, past) / kernels::kKeyBlock * kernels::kKeyBlock;
  const Parts parts(shape, queries, divide_up(end - start, kPart));
  parallel_for(shape.kv_heads * parts.count(), [&](std::size_t task) {
    const std::size_t kv_head = task % shape.kv_heads, part = task / shape.kv_heads;
    const std::size_t begin = start + part * kPart, part_end = std::min(end, begin + kPart);
    for (std::size_t position = std::max(begin, past); position < part_end; ++position) {
      keys.put(kv_head, position, k.row(position - past).data() + kv_head * dim);
      values.put(kv_head, position, v.row(position - past).data() + kv_head * dim);
    }
    for (std::size_t query = 0; query < queries; ++query) {
      const VisibleKeys visible = visible_keys(shape, past + query, begin, part_end - begin);
      if (visible.count() == 0) {  // the part begins behind this query, or ends before its window
        for (std::size_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
          parts.leave_out(query, head, part);
        continue;
      }
      const std::size_t block = visible.begin / kernels::kKeyBlock * kernels::kKeyBlock;
      const PartKeys<Stored> seen{keys.stored(kv_head, begin + block, visible.end - block),
                                  values.stored(kv_head, begin + visible.begin, visible.count()), begin + block,
                                  visible.begin - block};
      run_part<Stored>(shape, q.row(query).data() + kv_head * group * dim, seen, parts, query, past + query, kv_head,
                       part);
    }
  });
  for (std::size_t query = 0; query < queries; ++query)
    for (std::size_t head = 0; head < shape.heads; ++head) parts.join(query, head, out.row(query).data() + head * dim);
}

#define NIBBLE_INSTANTIATE(Stored)                                                                                \
  template void decode_attention<Stored>(const AttentionShape&, MatrixView<const float>, MatrixView<const float>, \
                                         MatrixView<const float>, ColumnStore<float, Stored>&,                    \
                                         RowStore<float, Stored>&, std::size_t, MatrixView<float>);
NIBBLE_INSTANTIATE(float)
NIBBLE_INSTANTIATE(Float16Bits)
NIBBLE_INSTANTIATE(std::int8_t)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model

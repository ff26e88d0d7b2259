#include "model/transformer/cache/decode_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/thread_pool.h"
#include "model/transformer/cache/attention_kernels.h"
#include "model/transformer/layers/attention_tiles.h"
#include "model/transformer/row_ops.h"

namespace nibble::model {
namespace {

namespace kernels = attention_kernels;

constexpr std::size_t kPart = 256, kTile = 64;

template <class Stored>
const kernels::Kernels<Stored>& kernels_for() {
  if constexpr (std::is_same_v<Stored, float>)
    return kernels::active().f32;
  else if constexpr (std::is_same_v<Stored, Float16Bits>)
    return kernels::active().f16;
  else
    return kernels::active().int8;
}

// The softmax of one query head over some of its keys: sum of exp(score - largest) v and of exp(score - largest).
struct Partial {
  float largest = -std::numeric_limits<float>::infinity();
  double sum = 0.0;
};

void scale_row(float* x, std::size_t n, float factor) {
  for (std::size_t i = 0; i < n; ++i) x[i] *= factor;
}

std::vector<float>& grown(std::vector<float>& buffer, std::size_t size) {
  if (buffer.size() < size) buffer.resize(size);
  return buffer;
}

/// Where the parts of a call leave what they found: out itself when there is one part, otherwise rows of a scratch.
class Parts {
 public:
  Parts(const AttentionShape& shape, MatrixView<float> out, std::size_t parts)
      : shape_(shape), out_(out), parts_(parts) {
    const std::size_t rows = parts * out.rows() * shape.heads;
    if (partials().size() < rows) partials().resize(rows);
    partials_ = partials().data();
    if (parts > 1) sums_ = grown(sums(), rows * shape.head_dim).data();
  }
  std::size_t count() const { return parts_; }
  float* row(std::size_t part, std::size_t query, std::size_t head) const {
    if (parts_ == 1) return out_.row(query).data() + head * shape_.head_dim;
    return sums_ + index(part, query, head) * shape_.head_dim;
  }
  Partial& partial(std::size_t part, std::size_t query, std::size_t head) const {
    return partials_[index(part, query, head)];
  }
  /// out = all parts together, divided by their sum.
  void finish() const {
    for (std::size_t query = 0; query < out_.rows(); ++query)
      for (std::size_t head = 0; head < shape_.heads; ++head) finish(query, head);
  }

 private:
  // Grown once and kept by the thread that calls.
  static std::vector<Partial>& partials() {
    thread_local std::vector<Partial> memory;
    return memory;
  }
  static std::vector<float>& sums() {
    thread_local std::vector<float> memory;
    return memory;
  }
  std::size_t index(std::size_t part, std::size_t query, std::size_t head) const {
    return (part * out_.rows() + query) * shape_.heads + head;
  }
  void finish(std::size_t query, std::size_t head) const {
    float* y = out_.row(query).data() + head * shape_.head_dim;
    if (parts_ == 1) return scale_row(y, shape_.head_dim, static_cast<float>(1.0 / partial(0, query, head).sum));
    Partial all;
    for (std::size_t p = 0; p < parts_; ++p) all.largest = std::max(all.largest, partial(p, query, head).largest);
    for (std::size_t p = 0; p < parts_; ++p) {
      const Partial& one = partial(p, query, head);
      all.sum += one.sum * static_cast<double>(std::exp(one.largest - all.largest));
    }
    std::fill_n(y, shape_.head_dim, 0.0f);
    for (std::size_t p = 0; p < parts_; ++p) {
      const double weight = std::exp(partial(p, query, head).largest - all.largest);
      const float factor = static_cast<float>(weight / all.sum);
      const float* x = row(p, query, head);
      for (std::size_t i = 0; i < shape_.head_dim; ++i) y[i] += factor * x[i];
    }
  }

  const AttentionShape& shape_;
  MatrixView<float> out_;
  std::size_t parts_;
  Partial* partials_ = nullptr;
  float* sums_ = nullptr;
};

/// The heads of one key-value head over keys [begin, end).
template <class Stored>
struct Part {
  const AttentionShape& shape;
  const RowStore<float, Stored>&keys, &values;
  const Parts& parts;
  std::size_t kv_head, part, begin, end;

  // Query `query` (its heads side by side at `q`) over those of the keys before `visible_end`.
  void run(const float* q, std::size_t query, std::size_t visible_end) const {
    const std::size_t dim = shape.head_dim, group = shape.heads / shape.kv_heads, first_head = kv_head * group;
    thread_local std::vector<float> tile_memory;
    float* scores = grown(tile_memory, group * kTile).data();
    float* sums = parts.row(part, query, first_head);  // the heads' rows follow each other
    Partial* partials = &parts.partial(part, query, first_head);
    std::fill_n(sums, group * dim, 0.0f);
    std::fill_n(partials, group, Partial{});
    for (std::size_t key = begin; key < std::min(end, visible_end); key += kTile) {
      const std::size_t n = std::min(kTile, std::min(end, visible_end) - key);
      kernels_for<Stored>().scores({q, group, dim}, keys.stored(kv_head, key, n), attention_scale<float>(shape),
                                   {scores, group, kTile});
      for (std::size_t head = 0; head < group; ++head)
        exponentiate(scores + head * kTile, n, partials[head], sums + head * dim);
      kernels_for<Stored>().add_weighted({scores, group, kTile}, values.stored(kv_head, key, n), {sums, group, dim});
    }
  }

  // scores become exp(score - largest so far); what was summed before is put in relation to that.
  void exponentiate(float* scores, std::size_t n, Partial& partial, float* sums) const {
    const float largest = std::max(partial.largest, max_real(scores, n));
    if (largest > partial.largest && partial.sum > 0.0) {
      const float correction = std::exp(partial.largest - largest);
      partial.sum *= static_cast<double>(correction);
      scale_row(sums, shape.head_dim, correction);
    }
    partial.largest = largest;
    partial.sum += exp_row<float>(scores, scores, n, largest);
  }
};

}  // namespace

template <class Stored>
void decode_attention(const AttentionShape& shape, MatrixView<const float> q, MatrixView<const float> k,
                      MatrixView<const float> v, RowStore<float, Stored>& keys, RowStore<float, Stored>& values,
                      std::size_t past, MatrixView<float> out) {
  const std::size_t queries = q.rows(), end = past + queries, dim = shape.head_dim;
  const Parts parts(shape, out, (end + kPart - 1) / kPart);
  parallel_for(shape.kv_heads * parts.count(), [&](std::size_t task) {
    const std::size_t kv_head = task % shape.kv_heads, part = task / shape.kv_heads;
    const std::size_t begin = part * kPart, part_end = std::min(end, begin + kPart);
    for (std::size_t position = std::max(begin, past); position < part_end; ++position) {
      keys.put(kv_head, position, k.row(position - past).data() + kv_head * dim);
      values.put(kv_head, position, v.row(position - past).data() + kv_head * dim);
    }
    const Part<Stored> work{shape, keys, values, parts, kv_head, part, begin, part_end};
    for (std::size_t query = 0; query < queries; ++query)
      work.run(q.row(query).data() + kv_head * (shape.heads / shape.kv_heads) * dim, query, past + query + 1);
  });
  parts.finish();
}

#define NIBBLE_INSTANTIATE(Stored)                                                                                    \
  template void decode_attention<Stored>(const AttentionShape&, MatrixView<const float>, MatrixView<const float>,     \
                                         MatrixView<const float>, RowStore<float, Stored>&, RowStore<float, Stored>&, \
                                         std::size_t, MatrixView<float>);
NIBBLE_INSTANTIATE(float)
NIBBLE_INSTANTIATE(Float16Bits)
NIBBLE_INSTANTIATE(std::int8_t)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model

#include "model/transformer/cache/decode_attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/machine/thread_pool.h"
#include "core/random.h"
#include "tests/support/compare.h"

namespace nibble::test {
namespace {

using model::AttentionShape;
using model::ColumnStore;
using model::Float16Bits;
using model::RowStore;

AttentionShape shape_of(std::size_t heads, std::size_t kv_heads, std::size_t dim) {
  AttentionShape shape;
  shape.heads = heads, shape.kv_heads = kv_heads, shape.head_dim = dim;
  shape.scale = 1.0 / std::sqrt(static_cast<double>(dim));
  return shape;
}

template <class Stored>
struct Cache {
  Cache(const AttentionShape& shape, std::size_t positions)
      : keys({shape.kv_heads, positions, shape.head_dim}, model::attention_kernels::kKeyBlock),
        values({shape.kv_heads, positions, shape.head_dim}) {}
  ColumnStore<float, Stored> keys;
  RowStore<float, Stored> values;
};

Matrix<float> normal_matrix(Random& random, std::size_t rows, std::size_t cols) {
  Matrix<float> m(rows, cols);
  for (float& value : m.values()) value = static_cast<float>(random.normal());
  return m;
}

// The definition, in double, on what the cache holds.
template <class Stored>
std::vector<float> expected_attention(const AttentionShape& shape, const Matrix<float>& q, const Cache<Stored>& cache,
                                      std::size_t past) {
  const std::size_t dim = shape.head_dim;
  std::vector<float> out, k_memory((past + q.rows()) * dim), v_memory(k_memory);
  for (std::size_t query = 0; query < q.rows(); ++query) {
    for (std::size_t head = 0; head < shape.heads; ++head) {
      const std::size_t visible = past + query + 1, kv_head = head / (shape.heads / shape.kv_heads);
      const auto k = cache.keys.columns(kv_head, 0, visible, k_memory.data());
      const auto v = cache.values.rows(kv_head, 0, visible, v_memory.data());
      std::vector<double> sums(dim);
      double total = shape.sinks.empty() ? 0.0 : std::exp(shape.sinks[head]);
      for (std::size_t key = 0; key < visible; ++key) {
        double score = 0.0;
        for (std::size_t i = 0; i < dim; ++i)
          score += static_cast<double>(q(query, head * dim + i)) * static_cast<double>(k(i, key));
        if (shape.window > 0 && past + query - key >= shape.window) continue;
        score *= shape.scale;
        if (shape.softcap > 0.0) score = shape.softcap * std::tanh(score / shape.softcap);
        if (!shape.alibi.empty()) score -= shape.alibi[head] * static_cast<double>(past + query - key);
        const double weight = std::exp(score);
        total += weight;
        for (std::size_t i = 0; i < dim; ++i) sums[i] += weight * static_cast<double>(v(key, i));
      }
      for (const double sum : sums) out.push_back(static_cast<float>(sum / total));
    }
  }
  return out;
}

template <class Stored>
struct DecodeAttention : testing::Test {};
using StoredTypes = testing::Types<float, Float16Bits, std::int8_t>;
TYPED_TEST_SUITE(DecodeAttention, StoredTypes);

// Head widths around the vector widths, groups that fill the rows of a kernel or not, lengths around tiles and parts.
// Scores are sums of dim products of about 1, each rounded by 6e-8, and outputs weighted means: 1e-5 is some 100 of
// them.
TYPED_TEST(DecodeAttention, GivesTheDefinitionAtOddSizes) {
  std::vector<AttentionShape> shapes = {shape_of(1, 1, 1),  shape_of(6, 2, 7),   shape_of(4, 1, 16),
                                        shape_of(8, 2, 64), shape_of(5, 1, 100), shape_of(3, 3, 129)};
  // Windows within a block, of several blocks, over the edges of parts, and everything together.
  for (const std::size_t window : {1u, 5u, 33u, 64u, 257u, 300u}) {
    shapes.push_back(shape_of(4, 2, 9));
    shapes.back().window = window;
  }
  shapes.push_back(shape_of(6, 2, 7));
  shapes.back().softcap = 0.8;
  shapes.push_back(shape_of(4, 1, 16));
  shapes.back().alibi = {0.5, 0.1, 0.01, 0.002};
  shapes.push_back(shape_of(2, 2, 5));
  shapes.back().sinks = {3.0, -200.0};
  shapes.push_back(shapes.back());
  shapes.back().window = 70, shapes.back().softcap = 2.0, shapes.back().alibi = {0.1, 0.02};
  for (const auto& shape : shapes) {
    for (const std::size_t past : {0u, 1u, 3u, 62u, 64u, 255u, 600u}) {
      for (const std::size_t queries : {1u, 4u}) {
        SCOPED_TRACE(testing::Message() << shape.heads << " heads, " << shape.kv_heads << " kv, dim " << shape.head_dim
                                        << ", window " << shape.window << ", past " << past << ", queries " << queries
                                        << ", seed " << past + queries);
        Random random(past + queries);
        const std::size_t kv_width = shape.kv_heads * shape.head_dim;
        Cache<TypeParam> cache(shape, past + queries);
        const auto old = normal_matrix(random, past, 2 * kv_width);
        for (std::size_t r = 0; r < past; ++r) {
          for (std::size_t head = 0; head < shape.kv_heads; ++head) {
            cache.keys.put(head, r, old.row(r).data() + head * shape.head_dim);
            cache.values.put(head, r, old.row(r).data() + kv_width + head * shape.head_dim);
          }
        }
        const auto q = normal_matrix(random, queries, shape.heads * shape.head_dim);
        const auto k = normal_matrix(random, queries, kv_width), v = normal_matrix(random, queries, kv_width);
        Matrix<float> out(queries, q.cols());
        model::decode_attention<TypeParam>(shape, q, k, v, cache.keys, cache.values, past, out);
        EXPECT_TRUE(all_near(out.values(), expected_attention(shape, q, cache, past), {.abs = 1e-5}));
      }
    }
  }
}

TYPED_TEST(DecodeAttention, TheNumberOfThreadsChangesNoBit) {
  const AttentionShape shape = shape_of(8, 2, 24);
  Random random(5);
  const std::size_t past = 700, kv_width = 48;
  Cache<TypeParam> cache(shape, past + 1);
  const auto rows = normal_matrix(random, past, kv_width);
  for (std::size_t r = 0; r < past; ++r) {
    for (std::size_t head = 0; head < 2; ++head) {
      cache.keys.put(head, r, rows.row(r).data() + head * 24);
      cache.values.put(head, r, rows.row(past - 1 - r).data() + head * 24);
    }
  }
  const auto q = normal_matrix(random, 1, 8 * 24), kv = normal_matrix(random, 1, kv_width);
  Matrix<float> outs[2] = {{1, 8 * 24}, {1, 8 * 24}};
  for (std::size_t i = 0; i < 2; ++i) {
    set_thread_count(1 + 2 * i);
    model::decode_attention<TypeParam>(shape, q, kv, kv, cache.keys, cache.values, past, outs[i]);
  }
  set_thread_count(0);
  EXPECT_TRUE(same_bits(outs[0].values(), outs[1].values()));
}

// The largest score comes last, tile after tile, so that everything summed before must be put in relation again.
TEST(DecodeAttentionScores, GrowFromTileToTileWithoutOverflow) {
  const AttentionShape shape = shape_of(1, 1, 4);
  constexpr std::size_t kPast = 300;
  Cache<float> cache(shape, kPast + 1);
  for (std::size_t r = 0; r < kPast; ++r) {
    const float key[] = {static_cast<float>(r), 0.0f, 0.0f, 0.0f}, value[] = {static_cast<float>(r), 1.0f, 0.0f, 0.0f};
    cache.keys.put(0, r, key);
    cache.values.put(0, r, value);
  }
  Matrix<float> q(1, 4), kv(1, 4), out(1, 4);
  q(0, 0) = 4.0f;  // scores 2 r: up to 598
  model::decode_attention<float>(shape, q, kv, kv, cache.keys, cache.values, kPast, out);
  // Weights fall by exp(-2) per key from the last but one on: the mean is 299 - 1 / (e^2 - 1).
  EXPECT_TRUE(near(out(0, 0), 299.0 - 1.0 / (std::exp(2.0) - 1.0), {.rel = 1e-6}));
  EXPECT_TRUE(near(out(0, 1), 1.0, {.rel = 1e-6}));
}

// A value that is not finite must not come back as a number.
TEST(Int8Rows, KeepNotANumberVisible) {
  RowStore<float, std::int8_t> rows({1, 2, 3});
  const float broken[] = {1.0f, std::nanf(""), 2.0f}, zero[] = {0.0f, 0.0f, 0.0f};
  rows.put(0, 0, broken);
  rows.put(0, 1, zero);
  float memory[6];
  const auto read = rows.rows(0, 0, 2, memory);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(read(0, i)));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(read(1, i), 0.0f);
}

// scale = max / 127 and round to even: half a step is the largest error.
TEST(Int8Rows, AreWithinHalfAStep) {
  Random random(1);
  RowStore<float, std::int8_t> rows({1, 1, 50});
  const auto row = normal_matrix(random, 1, 50);
  rows.put(0, 0, row.data());
  float memory[50], largest = 0.0f;
  for (const float x : row.values()) largest = std::max(largest, std::abs(x));
  const auto read = rows.rows(0, 0, 1, memory);
  EXPECT_TRUE(all_near(read.row(0), row.values(), {.abs = static_cast<double>(largest) / 254.0 * 1.0001}));
}

}  // namespace
}  // namespace nibble::test

#include "model/transformer/cache/attention_kernels.h"

#include <gtest/gtest.h>

#include "core/random.h"
#include "model/transformer/cache/kv_store.h"
#include "tests/support/compare.h"

namespace nibble::test {
namespace {

namespace kernels = model::attention_kernels;
using model::Float16Bits;

// Whole numbers up to 127, with a 127 in every row, so that int8 keeps them as they are with a scale of 1.
Matrix<float> whole_numbers(Random& random, std::size_t rows, std::size_t cols) {
  Matrix<float> m(rows, cols);
  for (float& value : m.values()) value = static_cast<float>(random.below(15)) - 7.0f;
  for (std::size_t r = 0; r < rows; ++r) m(r, random.below(cols)) = random.below(2) == 0 ? 127.0f : -127.0f;
  return m;
}

template <class Stored>
const kernels::Kernels<Stored>& kernels_for() {
  if constexpr (std::is_same_v<Stored, float>)
    return kernels::active().f32;
  else if constexpr (std::is_same_v<Stored, Float16Bits>)
    return kernels::active().f16;
  else
    return kernels::active().int8;
}

template <class Stored>
struct AttentionKernels : testing::Test {};
using StoredTypes = testing::Types<float, Float16Bits, std::int8_t>;
TYPED_TEST_SUITE(AttentionKernels, StoredTypes);

constexpr std::size_t kDims[] = {1, 3, 8, 15, 16, 17, 63, 64, 65, 100, 128};
constexpr std::size_t kGroups[] = {1, 2, 3, 4, 5, 8};

// Sums of products of whole numbers stay below 2^24 (128 * 127^2 = 2.1 million; scale 1/4 is exact too), so every order
// of summing gives the same bits as whole arithmetic.
TYPED_TEST(AttentionKernels, ScoresOfWholeNumbersAreExact) {
  for (const std::size_t dim : kDims) {
    for (const std::size_t group : kGroups) {
      for (const std::size_t keys : {1u, 31u, 32u, 33u, 70u}) {
        SCOPED_TRACE(testing::Message() << "dim " << dim << ", heads " << group << ", keys " << keys);
        Random random(dim * 1000 + group * 100 + keys);
        const auto q = whole_numbers(random, group, dim), k = whole_numbers(random, keys, dim);
        model::ColumnStore<float, TypeParam> store({2, keys, dim}, kernels::kKeyBlock);
        for (std::size_t i = 0; i < keys; ++i) store.put(1, i, k.row(i).data());
        const std::size_t stride = (keys + kernels::kKeyBlock - 1) / kernels::kKeyBlock * kernels::kKeyBlock + 5;
        Matrix<float> scores(group, stride);
        kernels_for<TypeParam>().scores({q.data(), group, dim}, store.stored(1, 0, keys), 0.25f,
                                        {scores.data(), group, stride});
        for (std::size_t head = 0; head < group; ++head) {
          for (std::size_t i = 0; i < keys; ++i) {
            long sum = 0;
            for (std::size_t j = 0; j < dim; ++j) sum += static_cast<long>(q(head, j)) * static_cast<long>(k(i, j));
            ASSERT_EQ(scores(head, i), 0.25f * static_cast<float>(sum)) << "head " << head << ", key " << i;
          }
        }
      }
    }
  }
}

// 70 * 127^2 = 1.1 million.
TYPED_TEST(AttentionKernels, WeightedSumsOfWholeNumbersAreExact) {
  for (const std::size_t dim : kDims) {
    for (const std::size_t group : kGroups) {
      for (const std::size_t rows : {1u, 5u, 70u}) {
        SCOPED_TRACE(testing::Message() << "dim " << dim << ", heads " << group << ", rows " << rows);
        Random random(dim * 1000 + group * 100 + rows);
        const auto weights = whole_numbers(random, group, rows), v = whole_numbers(random, rows, dim);
        model::RowStore<float, TypeParam> store({2, rows, dim});
        for (std::size_t i = 0; i < rows; ++i) store.put(1, i, v.row(i).data());
        auto out = whole_numbers(random, group, dim + 3);  // what is there already counts; what is behind stays
        const auto before = out;
        kernels_for<TypeParam>().add_weighted({weights.data(), group, rows}, store.stored(1, 0, rows),
                                              {out.data(), group, dim + 3});
        for (std::size_t head = 0; head < group; ++head) {
          for (std::size_t j = 0; j < dim + 3; ++j) {
            long sum = static_cast<long>(before(head, j));
            for (std::size_t i = 0; j < dim && i < rows; ++i)
              sum += static_cast<long>(weights(head, i)) * static_cast<long>(v(i, j));
            ASSERT_EQ(out(head, j), static_cast<float>(sum)) << "head " << head << ", column " << j;
          }
        }
      }
    }
  }
}

// Columns read back as they were put, across the edges of blocks.
TYPED_TEST(AttentionKernels, ColumnsAcrossBlocksAreThoseThatWerePut) {
  Random random(3);
  const std::size_t dim = 7, positions = 100;
  const auto k = whole_numbers(random, positions, dim);
  model::ColumnStore<float, TypeParam> store({2, positions, dim}, kernels::kKeyBlock);
  for (std::size_t i = 0; i < positions; ++i) store.put(1, i, k.row(i).data());
  for (const auto& [first, count] :
       {std::pair<std::size_t, std::size_t>{0, 100}, {32, 32}, {40, 10}, {31, 35}, {99, 1}}) {
    std::vector<float> scratch(dim * count);
    const auto columns = store.columns(1, first, count, scratch.data());
    ASSERT_EQ(columns.rows(), dim);
    ASSERT_EQ(columns.cols(), count);
    for (std::size_t i = 0; i < dim; ++i)
      for (std::size_t c = 0; c < count; ++c) ASSERT_EQ(columns(i, c), k(first + c, i)) << first << " " << count;
  }
}

}  // namespace
}  // namespace nibble::test

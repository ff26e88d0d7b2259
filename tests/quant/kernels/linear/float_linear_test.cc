#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/random.h"
#include "quant/kernels/linear/packed_linear.h"
#include "tests/support/compare.h"

namespace nibble::quant {
namespace {

// A weight in memory as a checkpoint would map it, one byte off any alignment, ending where its buffer ends.
class PlainSource final : public WeightSource {
 public:
  PlainSource(const Matrix<float>& stored, DType dtype, bool transposed)
      : stored_rows_(stored.rows()), stored_cols_(stored.cols()), dtype_(dtype), transposed_(transposed) {
    const std::size_t size = dtype_size(dtype);
    bytes_.resize(1 + stored.size() * size);
    for (std::size_t i = 0; i < stored.size(); ++i) {
      const float value = stored.values()[i];
      const std::uint16_t half = dtype == DType::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
      std::memcpy(bytes_.data() + 1 + i * size, size == 2 ? static_cast<const void*>(&half) : &value, size);
    }
  }
  std::size_t rows() const override { return transposed_ ? stored_cols_ : stored_rows_; }
  std::size_t cols() const override { return transposed_ ? stored_rows_ : stored_cols_; }
  bool stored_transposed() const override { return transposed_; }
  PlainFloats plain_floats() const override { return {bytes_.data() + 1, dtype_, stored_cols_}; }
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    ASSERT_FALSE(transposed_) << "turned over before use";
    convert_to_f32(dtype_, bytes_.data() + 1 + begin * stored_cols_ * dtype_size(dtype_), (end - begin) * stored_cols_,
                   destination);
  }

 private:
  std::size_t stored_rows_, stored_cols_;
  DType dtype_;
  bool transposed_;
  std::vector<std::byte> bytes_;
};

Matrix<float> bf16_matrix(std::size_t rows, std::size_t cols, bool integers, Random& random) {
  Matrix<float> m(rows, cols);
  for (float& value : m.values()) {
    value = integers ? static_cast<float>(random.below(17)) - 8.0f : static_cast<float>(random.normal());
    value = bf16_to_f32(f32_to_bf16(value));  // what every type holds, near 1
  }
  return m;
}

// `integers`: exact sums, tolerance 0; else the bound of float_matvec.h.
void check(DType dtype, bool transposed, std::size_t rows, std::size_t cols, std::size_t tokens, bool integers) {
  SCOPED_TRACE(testing::Message() << dtype_name(dtype) << ' ' << rows << " x " << cols << ", tokens " << tokens);
  Random random(rows * 1000 + cols);
  const Matrix<float> w = bf16_matrix(rows, cols, integers, random), x = bf16_matrix(tokens, cols, integers, random);
  Matrix<float> stored(transposed ? cols : rows, transposed ? rows : cols);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < cols; ++c) (transposed ? stored(c, r) : stored(r, c)) = round_to_f16(w(r, c));
  std::vector<float> bias(rows, 2.0f);
  const auto op = make_float_linear(std::make_shared<PlainSource>(stored, dtype, transposed), bias, Compute::kExact);
  Matrix<float> y(tokens, rows);
  op->forward(x, y);
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t r = 0; r < rows; ++r) {
      double sum = 2.0, magnitude = 2.0;
      for (std::size_t c = 0; c < cols; ++c) {
        const double product = static_cast<double>(round_to_f16(w(r, c))) * static_cast<double>(x(t, c));
        sum += product;
        magnitude += std::abs(product);
      }
      const double bound = integers ? 0.0 : 2 * (static_cast<double>(cols) + 20) * 0x1p-24 * magnitude;
      ASSERT_TRUE(test::near(static_cast<double>(y(t, r)), sum, {.abs = bound})) << "row " << r;
    }
  }
}

TEST(FloatLinear, MultipliesWhereTheWeightLies) {
  for (const bool transposed : {false, true})
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32})
      for (const std::size_t cols : {1u, 15u, 16u, 67u, 131u})
        for (const std::size_t tokens : {1u, 6u, 9u})
          for (const bool integers : {true, false}) check(dtype, transposed, 35, cols, tokens, integers);
}

}  // namespace
}  // namespace nibble::quant

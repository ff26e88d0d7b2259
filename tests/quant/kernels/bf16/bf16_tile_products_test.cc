#include "quant/kernels/bf16/bf16_tile_products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "core/matrix/dtype.h"
#include "core/random.h"

// What lies around a processor's matrix registers, with products in plain loops in their place: on every processor.
namespace nibble::quant {
namespace {

void multiply(const Bf16TileArgs& args) {
  const auto product = [&](std::size_t token, std::size_t row, std::size_t input) {
    const std::size_t step = input / kBf16TileInputs, within = input % kBf16TileInputs;
    const std::size_t x = ((token / kBf16Tile * args.steps + step) * kBf16Tile + token % kBf16Tile) * kBf16TileInputs;
    const std::size_t w = ((row / kBf16Tile * args.steps + step) * kBf16Tile + within / 2) * kBf16TileInputs;
    return bf16_to_f32(args.x[x + within]) * bf16_to_f32(args.w[w + row % kBf16Tile * 2 + within % 2]);
  };
  for (std::size_t row = 0; row < args.row_tiles * kBf16Tile; ++row) {
    for (std::size_t token = 0; token < args.token_tiles * kBf16Tile; ++token) {
      const std::size_t tile = row / kBf16Tile * args.token_tiles + token / kBf16Tile;
      float& sum = args.sums[(tile * kBf16Tile + token % kBf16Tile) * kBf16Tile + row % kBf16Tile];
      if (args.first) sum = 0.0f;
      for (std::size_t input = 0; input < args.steps * kBf16TileInputs; ++input) sum += product(token, row, input);
    }
  }
}

void arrange_token(const float* x, std::size_t steps, std::uint16_t* destination) {
  for (std::size_t input = 0; input < steps * kBf16TileInputs; ++input)
    destination[input / kBf16TileInputs * kBf16TileBits + input % kBf16TileInputs] = f32_to_bf16(x[input]);
}

void arrange(const float* w, std::size_t row_stride, std::size_t input_stride, std::size_t steps,
             std::uint16_t* destination) {
  for (std::size_t input = 0; input < steps * kBf16TileInputs; ++input)
    for (std::size_t row = 0; row < kBf16Tile; ++row)
      destination[(input / 2 * kBf16Tile + row) * 2 + input % 2] =
          f32_to_bf16(w[row * row_stride + input * input_stride]);
}
void arrange_rows(const float* rows, std::size_t stride, std::size_t steps, std::uint16_t* destination) {
  arrange(rows, stride, 1, steps, destination);
}
void arrange_columns(const float* columns, std::size_t steps, std::uint16_t* destination) {
  arrange(columns, 1, kBf16Tile, steps, destination);
}

constexpr Bf16TileKernels kPlain = {multiply, arrange_token, arrange_rows, arrange_columns, "plain"};

struct Storage {
  bool transposed;
  std::size_t together;  // rows that are decoded together
};

class Counted final : public WeightSource {
 public:
  Counted(const Matrix<float>& w, Storage storage) : w_(w), storage_(storage), decoded_(w.rows()) {}
  const std::vector<std::atomic<int>>& decoded() const { return decoded_; }
  std::size_t rows() const override { return w_.rows(); }
  std::size_t cols() const override { return w_.cols(); }
  bool stored_transposed() const override { return storage_.transposed; }
  std::size_t rows_together() const override { return storage_.together; }
  void decode_rows(std::size_t begin, std::size_t end, float* to) const override { decode(begin, end, to, cols(), 1); }
  void decode_rows_transposed(std::size_t begin, std::size_t end, float* to) const override {
    decode(begin, end, to, 1, end - begin);
  }

 private:
  // Counts all that has to be decoded for these rows.
  void decode(std::size_t begin, std::size_t end, float* to, std::size_t row_stride, std::size_t input_stride) const {
    for (std::size_t r = begin; r < end; ++r)
      for (std::size_t j = 0; j < cols(); ++j) to[(r - begin) * row_stride + j * input_stride] = w_(r, j);
    for (std::size_t r = begin / storage_.together * storage_.together; r < end; ++r) ++decoded_[r];
  }
  const Matrix<float>& w_;
  Storage storage_;
  mutable std::vector<std::atomic<int>> decoded_;
};

// Small integers: every sum is exact, in any order.
Matrix<float> integers(std::size_t rows, std::size_t cols, Random& random) {
  Matrix<float> values(rows, cols);
  for (float& value : values.values()) value = static_cast<float>(static_cast<int>(random.below(17)) - 8);
  return values;
}

// Sizes around pairs of tiles, chunks of 256 inputs, groups of 256 tokens and rows that are decoded together.
TEST(Bf16TileProducts, AreThoseOfPlainLoopsAndDecodeEachRowOnce) {
  Random random(1);
  constexpr std::array<std::array<std::size_t, 3>, 5> kShapes{
      {{1, 1, 1}, {17, 33, 3}, {130, 515, 33}, {600, 40, 290}, {64, 256, 32}}};
  for (const auto& [rows, cols, tokens] : kShapes) {
    const Matrix<float> w = integers(rows, cols, random), x = integers(tokens, cols, random);
    std::vector<float> bias(rows);
    for (float& value : bias) value = static_cast<float>(random.below(5));
    for (const Storage storage : {Storage{false, 1}, Storage{true, 1}, Storage{false, 128}, Storage{true, 128}}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << cols << ", " << tokens << " tokens, together "
                                      << storage.together << (storage.transposed ? ", transposed" : ""));
      const auto source = std::make_shared<Counted>(w, storage);
      Matrix<float> y(tokens, rows);
      make_bf16_tile_products(kPlain, source, bias)->forward(x, y);
      for (std::size_t t = 0; t < tokens; ++t) {
        for (std::size_t r = 0; r < rows; ++r) {
          double sum = static_cast<double>(bias[r]);
          for (std::size_t j = 0; j < cols; ++j) sum += static_cast<double>(w(r, j)) * static_cast<double>(x(t, j));
          ASSERT_EQ(static_cast<double>(y(t, r)), sum) << "token " << t << ", row " << r;
        }
      }
      for (std::size_t r = 0; r < rows; ++r) EXPECT_EQ(source->decoded()[r], 1) << "row " << r;
    }
  }
}

TEST(Bf16TileProducts, RoundOperandsToTheNearest) {
  Matrix<float> w(1, 2), x(1, 2), y(1, 1);
  w(0, 0) = 1.0f + 0x1p-7f + 0x1p-9f;  // to 1 + 2^-7
  w(0, 1) = 1.0f;
  x(0, 0) = 1.0f;
  x(0, 1) = -(1.0f + 0x1p-8f);  // a tie: to 1
  make_bf16_tile_products(kPlain, std::make_shared<Counted>(w, Storage{false, 1}), {})->forward(x, y);
  EXPECT_EQ(y(0, 0), 0x1p-7f);
}

}  // namespace
}  // namespace nibble::quant

#include "quant/kernels/linear/window_products.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/machine/isa.h"
#include "core/machine/thread_pool.h"
#include "core/random.h"
#include "quant/kernels/linear/packed_linear.h"
#include "tests/support/compare.h"
#include "tests/support/isa_suffix.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

struct Example {
  WindowedLayout layout;
  std::vector<std::byte> streams;
  std::vector<float> palette, scale;

  Example(const WindowedLayout& of, bool scaled, bool integers, Random& random) : layout(of), streams(of.bytes()) {
    for (auto& byte : streams) byte = static_cast<std::byte>(random.below(256));
    for (std::size_t i = 0; i < layout.entries(); ++i)
      palette.push_back(integers ? static_cast<float>(random.below(33)) - 16.0f : static_cast<float>(random.normal()));
    for (std::size_t row = 0; scaled && row < layout.rows; ++row)
      scale.push_back((row % 3 == 0 ? -1.0f : 1.0f) * (integers ? 2.0f : static_cast<float>(0.5 + random.uniform())));
  }
  PackedWeight pack() const { return pack_windows(layout, streams, palette, scale); }
  // Just as the format says, with one rounding.
  Matrix<float> weights() const {
    Matrix<std::uint16_t> codes(layout.rows, layout.cols);
    unpack_window_block(layout, streams, 0, 0, codes.view());
    Matrix<float> w(layout.rows, layout.cols);
    for (std::size_t i = 0; i < layout.rows; ++i)
      for (std::size_t j = 0; j < layout.cols; ++j)
        w(i, j) = scale.empty() ? palette[codes(i, j)] : scale[i] * palette[codes(i, j)];
    return w;
  }
};

template <class Action>
void for_each_example(bool integers, Random& random, const Action& action) {
  const std::pair<std::size_t, std::size_t> shapes[] = {{1, 1}, {130, 65}, {300, 70}};
  for (const auto& [rows, cols] : shapes)
    for (unsigned bits = 1; bits <= kMostWindowStep; ++bits)
      for (const unsigned window_bits : {5u, 6u, 8u, 10u})
        for (const bool scaled : {false, true}) {
          if (!WindowLayout::holds(bits, window_bits)) continue;
          SCOPED_TRACE(fmt::format("({}, {}), windows of {} bits, {} apart{}", rows, cols, window_bits, bits,
                                   scaled ? ", scaled" : ""));
          action(Example({rows, cols, bits, window_bits}, scaled, integers, random));
        }
}

Matrix<float> random_inputs(std::size_t tokens, std::size_t cols, bool integers, Random& random) {
  Matrix<float> x(tokens, cols);
  for (float& value : x.values())
    value = integers ? static_cast<float>(random.below(7)) - 3.0f : static_cast<float>(random.normal());
  return x;
}

TEST(WindowProducts, SumsOfIntegersAreExactForAnyNumberOfTokens) {
  Random random(1);
  for_each_example(true, random, [&](const Example& example) {
    std::vector<float> bias(example.layout.rows);
    for (float& value : bias) value = static_cast<float>(random.below(9)) - 4.0f;
    const Matrix<float> w = example.weights();
    const auto op = make_packed_linear(example.pack(), bias, Compute::kExact);
    for (const std::size_t tokens : {1u, 5u, 33u}) {  // 33 go through the decoder
      const Matrix<float> x = random_inputs(tokens, example.layout.cols, true, random);
      Matrix<float> y(tokens, example.layout.rows);
      op->forward(x, y);
      for (std::size_t t = 0; t < tokens; ++t)
        for (std::size_t r = 0; r < example.layout.rows; ++r) {
          double sum = static_cast<double>(bias[r]);  // at most 70 products below 2^8 of integers: exact in float
          for (std::size_t j = 0; j < example.layout.cols; ++j)
            sum += static_cast<double>(w(r, j)) * static_cast<double>(x(t, j));
          ASSERT_TRUE(test::near(static_cast<double>(y(t, r)), sum, {})) << "row " << r << ", token " << t;
        }
    }
  });
}

TEST(WindowProducts, DecodeJustTheValuesOfTheFormat) {
  Random random(2);
  for_each_example(false, random, [&](const Example& example) {
    const std::size_t rows = example.layout.rows, cols = example.layout.cols;
    const Matrix<float> w = example.weights();
    const auto op = make_packed_linear(example.pack(), {}, Compute::kExact);
    Matrix<float> identity(rows, rows), decoded(rows, cols);
    for (std::size_t i = 0; i < rows; ++i) identity(i, i) = 1.0f;
    op->backward_input(identity, decoded);  // dX = I W
    ASSERT_TRUE(test::all_near(decoded.values(), w.values(), {}));
    const PackedWeight packed = example.pack();  // rows that start anywhere
    const std::size_t first = rows / 3;
    std::vector<float> some((rows - first) * cols);
    decode_windows(packed, first, rows, some.data(), cols, 1);
    ASSERT_TRUE(test::all_near(some, std::span<const float>(w.values()).subspan(first * cols), {}));
  });
}

TEST(WindowProducts, Int8IsWithinTheBoundOfItsContract) {
  Random random(3);
  for_each_example(false, random, [&](const Example& example) {
    const std::size_t rows = example.layout.rows, cols = example.layout.cols;
    const Matrix<float> w = example.weights(), x = random_inputs(3, cols, false, random);
    const auto op = make_packed_linear(example.pack(), {}, Compute::kInt8);
    Matrix<float> y(3, rows);
    op->forward(x, y);
    const auto [least, most] = std::minmax_element(example.palette.begin(), example.palette.end());
    for (std::size_t t = 0; t < 3; ++t)
      for (std::size_t r = 0; r < rows; ++r) {
        const double step = std::abs(example.scale.empty() ? 1.0 : static_cast<double>(example.scale[r])) *
                            static_cast<double>(*most - *least) / 255;
        double sum = 0.0, bound = 0.0;
        for (std::size_t j = 0; j < cols; ++j) {
          float largest = 0.0f;
          for (std::size_t k = j / 32 * 32; k < std::min(cols, j / 32 * 32 + 32); ++k)
            largest = std::max(largest, std::abs(x(t, k)));
          const double value = static_cast<double>(w(r, j)), input = static_cast<double>(x(t, j)),
                       s = static_cast<double>(largest) / 127;
          sum += value * input;
          // As compute.h has it, the step's half times what x8 stands for; and rounding of float32 sums.
          bound += s / 2 * std::abs(value) + step / 2 * (std::abs(input) + s / 2);
          bound += 200 * 0x1p-24 * (std::abs(value) + 255 * step) * (std::abs(input) + s);
        }
        ASSERT_TRUE(test::near(static_cast<double>(y(t, r)), sum, {.abs = bound})) << "row " << r << ", token " << t;
      }
  });
}

TEST(WindowProducts, Int8OfABytePaletteAndIntegersIsExact) {
  Random random(4);
  // Entries from -100 to 155, both taken: in 8 bits they stay what they are. Inputs up to 127, taken: so do they.
  Example example({260, 96, 2, 8}, false, true, random);
  for (float& entry : example.palette) entry = static_cast<float>(random.below(256)) - 100.0f;
  example.palette[3] = -100.0f;
  example.palette[200] = 155.0f;
  const Matrix<float> w = example.weights();
  for (const std::size_t tokens : {1u, 40u}) {
    Matrix<float> x(tokens, 96), y(tokens, 260);
    for (std::size_t t = 0; t < tokens; ++t)
      for (std::size_t j = 0; j < 96; ++j)
        x(t, j) = j % 32 == 5 ? 127.0f : static_cast<float>(random.below(255)) - 127.0f;
    make_packed_linear(example.pack(), {}, Compute::kInt8)->forward(x, y);
    for (std::size_t t = 0; t < tokens; ++t)
      for (std::size_t r = 0; r < 260; ++r) {
        double sum = 0.0;  // of integers below 2^22: exact in float
        for (std::size_t j = 0; j < 96; ++j) sum += static_cast<double>(w(r, j)) * static_cast<double>(x(t, j));
        ASSERT_TRUE(test::near(static_cast<double>(y(t, r)), sum, {})) << "row " << r << ", token " << t;
      }
  }
}

TEST(WindowProducts, Int8OfAPaletteOfIntegersHasNoErrorOfTheWeights) {
  Random random(10);
  Example example({200, 64, 3, 7}, false, true, random);
  for (float& entry : example.palette) entry = (static_cast<float>(random.below(255)) - 127.0f) * 0.25f;
  const Matrix<float> w = example.weights();
  Matrix<float> x(1, 64), y(1, 200);
  for (std::size_t j = 0; j < 64; ++j) x(0, j) = j % 32 == 5 ? 127.0f : static_cast<float>(random.below(255)) - 127.0f;
  make_packed_linear(pack_windows(example.layout, example.streams, example.palette, {}, 0.25f), {}, Compute::kInt8)
      ->forward(x, y);
  for (std::size_t r = 0; r < 200; ++r) {
    double sum = 0.0;  // of quarters below 2^19: exact in float
    for (std::size_t j = 0; j < 64; ++j) sum += static_cast<double>(w(r, j)) * static_cast<double>(x(0, j));
    ASSERT_TRUE(test::near(static_cast<double>(y(0, r)), sum, {})) << "row " << r;
  }
}

// What 255 steps do not reach: any values, and integers of a step.
TEST(WindowProducts, Int8IsExactForPalettesWhoseValuesLieTooFarApart) {
  Random random(11);
  Example example({20, 64, 3, 7}, false, true, random);
  constexpr float kUnit = 0x1p121f;
  for (const float step : {0.0f, kUnit}) {
    for (float& entry : example.palette) entry = (static_cast<float>(random.below(255)) - 127.0f) * kUnit;
    const Matrix<float> w = example.weights();
    const auto op = make_packed_linear(pack_windows(example.layout, example.streams, example.palette, {}, step), {},
                                       Compute::kInt8);
    EXPECT_EQ(op->kernel_name(), make_packed_linear(example.pack(), {}, Compute::kExact)->kernel_name());
    for (const std::size_t tokens : {1u, 9u}) {
      Matrix<float> x(tokens, 64), y(tokens, 20);
      for (std::size_t t = 0; t < tokens; ++t) x(t, 3) = 0.25f, x(t, 5) = -0.125f;
      op->forward(x, y);
      for (std::size_t t = 0; t < tokens; ++t)
        for (std::size_t r = 0; r < 20; ++r)
          ASSERT_EQ(y(t, r), 0.25f * w(r, 3) - 0.125f * w(r, 5)) << "row " << r << ", token " << t;
    }
  }
}

TEST(WindowProducts, PassNaNOnInInt8) {
  Random random(5);
  const Example example({20, 70, 2, 6}, false, false, random);
  for (const std::size_t tokens : {1u, 9u}) {
    Matrix<float> x(tokens, 70), y(tokens, 20);
    x(tokens - 1, 40) = std::numeric_limits<float>::quiet_NaN();
    make_packed_linear(example.pack(), {}, Compute::kInt8)->forward(x, y);
    for (std::size_t r = 0; r < 20; ++r) EXPECT_TRUE(std::isnan(y(tokens - 1, r)));
  }
}

TEST(WindowProducts, ATokenGetsTheSameBitsAloneAndInCompanyOnAnyNumberOfThreads) {
  Random random(6);
  const Example example({700, 300, 2, 8}, true, false, random);
  for (const Compute compute : {Compute::kExact, Compute::kInt8}) {
    const auto op = make_packed_linear(example.pack(), {}, compute);
    const Matrix<float> x = random_inputs(7, 300, false, random);
    Matrix<float> together(7, 700), alone(7, 700);
    op->forward(x, together);
    set_thread_count(1);
    for (std::size_t t = 0; t < 7; ++t) op->forward(x.view().rows_slice(t, 1), alone.view().rows_slice(t, 1));
    set_thread_count(0);
    EXPECT_TRUE(test::same_bits(together.values(), alone.values())) << compute_name(compute);
  }
}

TEST(WindowProducts, CountTheBytesThatAProductReads) {
  Random random(7);
  const Example example({130, 70, 3, 6}, true, false, random);
  // Two panels of 128 rows and two groups of 64 inputs: 3 bits a weight, and a byte per input and panel.
  const std::uint64_t codes = 256 * 128 * 3 / 8 + 2 * 128;
  EXPECT_EQ(make_packed_linear(example.pack(), {}, Compute::kExact)->weight_bytes(), codes + 4 * (64 + 130));
  EXPECT_EQ(make_packed_linear(example.pack(), {}, Compute::kInt8)->weight_bytes(), codes + 64 + 2 * 4 * 130);
}

TEST(WindowProducts, NameTheirKernels) {
  Random random(8);
  const auto name = [&](unsigned window_bits, Compute compute) {
    return make_packed_linear(Example({5, 7, 2, window_bits}, false, false, random).pack(), {}, compute)->kernel_name();
  };
  const std::string vectors(active_vectors_name());
  EXPECT_EQ(name(8, Compute::kExact),
            "packed_exact_" + (isa_includes(active_isa(), Isa::kAvx512Vbmi) ? "avx512_vbmi" : vectors));
  EXPECT_EQ(name(6, Compute::kInt8), "packed_int8_" + test::isa_suffix(active_isa()));
  EXPECT_EQ(name(10, Compute::kInt8), "packed_exact_" + vectors);  // no products of bytes
}

TEST(WindowProducts, AreWhatAStoredTensorIsPackedFor) {
  Random random(11);
  for (const unsigned window_bits : {6u, 8u, 10u}) {
    const WindowedLayout layout{150, 40, 2, window_bits};
    Matrix<std::uint16_t> codes(150, 40);
    std::vector<std::byte> streams(layout.bytes());
    for (auto& byte : streams) byte = static_cast<std::byte>(random.below(256));
    unpack_window_block(layout, streams, 0, 0, codes.view());
    std::vector<float> palette(layout.entries()), scale(150, 0.5f);
    for (float& entry : palette) entry = static_cast<float>(random.below(17)) - 8.0f;
    TensorSpec spec{Coding::kPalette, 150, 40, 2};
    spec.window_bits = window_bits;
    ASSERT_TRUE(can_pack(spec));
    const QuantizedTensor tensor = make_windowed_tensor("weight", spec, codes.view(), palette, DType::kF16, scale);
    const auto op = make_packed_linear(tensor, {}, Compute::kExact);
    const Matrix<float> x = random_inputs(2, 40, true, random);
    Matrix<float> y(2, 150);
    op->forward(x, y);
    std::vector<float> w(150 * 40);
    tensor.decode_rows(0, 150, w.data());
    for (std::size_t t = 0; t < 2; ++t)
      for (std::size_t r = 0; r < 150; ++r) {
        double sum = 0.0;
        for (std::size_t j = 0; j < 40; ++j) sum += static_cast<double>(w[r * 40 + j]) * static_cast<double>(x(t, j));
        ASSERT_TRUE(test::near(static_cast<double>(y(t, r)), sum, {})) << "row " << r;
      }
  }
  TensorSpec wide{Coding::kPalette, 150, 40, 1};
  wide.window_bits = 10;
  EXPECT_FALSE(can_pack(wide));  // nine bits of overlap: decoded
}

TEST(WindowProducts, RefuseWhatDoesNotFit) {
  Random random(9);
  Example example({5, 7, 2, 6}, true, false, random);
  example.palette.pop_back();
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { example.pack(); }, "63 entries", "64"));
  const auto op = make_packed_linear(Example({5, 7, 2, 6}, true, false, random).pack(), {}, Compute::kExact);
  Matrix<float> x(1, 8), y(1, 5);
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { op->forward(x, y); }, "(5, 7)", "(1, 8)"));
}

}  // namespace
}  // namespace nibble::quant

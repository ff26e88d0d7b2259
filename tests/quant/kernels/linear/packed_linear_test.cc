#include "quant/kernels/linear/packed_linear.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/machine/isa.h"
#include "core/machine/thread_pool.h"
#include "quant/kernels/packing/packed_weight.h"
#include "tests/quant/kernels/example_tensors.h"
#include "tests/support/compare.h"
#include "tests/support/isa_suffix.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using test::describe;
using test::random_matrix;
using test::random_tensor;
using test::TensorWish;

std::vector<TensorWish> wishes(bool integers) {
  std::vector<TensorWish> all;
  // Odd sizes around panels of 16 rows, blocks of 32 inputs and units of 128 to 512.
  const std::pair<std::size_t, std::size_t> shapes[] = {{1, 1}, {15, 31}, {17, 33}, {35, 129}, {16, 515}};
  for (const auto& [rows, cols] : shapes) {
    for (const unsigned bits : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u})
      for (const std::size_t group : {std::size_t{0}, std::size_t{16}, std::size_t{8}, std::size_t{1}})
        all.push_back(
            {{Coding::kPalette, rows, cols, bits, group, 1}, group == 8, false, integers, group == 1 ? 0.02 : 0.0});
    for (const unsigned bits : {2u, 3u, 4u, 5u, 6u, 7u, 8u})
      for (const std::size_t width : {std::size_t{0}, std::size_t{32}, std::size_t{64}})
        for (const bool zeros : {false, true})
          all.push_back({{Coding::kBlocks, rows, cols, bits, width, 1}, false, zeros, integers, 0.0});
    for (const TensorWish& wish : test::block_palette_wishes(rows, cols, integers)) all.push_back(wish);
  }
  return all;
}

// Y = X Wᵀ + b and, beside it, sum_j |w x| (with zero points: |code - middle| + |zero - middle| for |code - zero|,
// which the kernels round with), in double, of the weights that the format defines.
struct Reference {
  Matrix<double> y, magnitude;
};
Reference reference(const QuantizedTensor& tensor, const Matrix<float>& x, const std::vector<float>& bias) {
  std::vector<float> w(tensor.rows() * tensor.cols());
  tensor.decode_rows(0, tensor.rows(), w.data());
  Reference result{{x.rows(), tensor.rows()}, {x.rows(), tensor.rows()}};
  float largest = 0.0f;
  for (const float value : w) largest = std::max(largest, std::abs(value));
  const bool zeros = tensor.find("block_zero") != nullptr;
  for (std::size_t t = 0; t < x.rows(); ++t) {
    for (std::size_t r = 0; r < tensor.rows(); ++r) {
      double sum = bias.empty() ? 0.0 : static_cast<double>(bias[r]), magnitude = std::abs(sum);
      for (std::size_t j = 0; j < tensor.cols(); ++j) {
        const double product = static_cast<double>(w[r * tensor.cols() + j]) * static_cast<double>(x(t, j));
        sum += product;
        // |code - middle| + |zero - middle| <= 2 · 2^bits steps of at most `largest` each.
        magnitude +=
            zeros ? std::abs(static_cast<double>(x(t, j))) * static_cast<double>(largest) * 4 : std::abs(product);
      }
      result.y(t, r) = sum;
      result.magnitude(t, r) = magnitude;
    }
  }
  return result;
}

std::vector<float> random_bias(std::size_t rows, Random& random) {
  std::vector<float> bias(rows);
  for (float& value : bias) value = static_cast<float>(random.below(9)) - 4.0f;
  return bias;
}

TEST(PackedLinear, SumsOfIntegersAreExactForEveryFormatAndNumberOfTokens) {
  Random random(1);
  for (const TensorWish& wish : wishes(true)) {
    SCOPED_TRACE(describe(wish));
    const QuantizedTensor tensor = random_tensor(wish, random);
    const auto bias = random_bias(tensor.rows(), random);
    const auto op = make_packed_linear(tensor, bias, Compute::kExact);
    for (const std::size_t tokens : {1u, 5u, 32u, 33u}) {  // 4 + 1 at a time; 33 go through the decoder
      const Matrix<float> x = random_matrix(tokens, tensor.cols(), true, random);
      Matrix<float> y(tokens, tensor.rows());
      op->forward(x, y);
      const auto expected = reference(tensor, x, bias).y;
      // Sums of at most 515 products below 2^15 of integers: exact in float.
      for (std::size_t i = 0; i < y.size(); ++i)
        ASSERT_TRUE(test::near(static_cast<double>(y.values()[i]), expected.values()[i], {})) << "element " << i;
    }
  }
}

std::uint64_t up_to_multiple(std::uint64_t n, std::uint64_t step) { return (n + step - 1) / step * step; }

// What a product reads, counted from the formats' description: codes with room for whole panels of 16 rows or whole
// units of inputs, and what stands beside them.
std::uint64_t bytes_read(const TensorWish& wish, const QuantizedTensor& tensor, bool int8) {
  const std::uint64_t rows = wish.spec.rows, cols = wish.spec.cols;
  const unsigned bits = wish.spec.bits, kept = bits == 5 ? 6 : bits == 7 ? 8 : bits;
  const std::uint64_t entries = 1u << kept, byte_entries = std::max<std::uint64_t>(16, entries);
  if (wish.spec.coding == Coding::kPalette) {
    const std::uint64_t group = wish.spec.group_size == 0 ? rows : wish.spec.group_size;
    const std::uint64_t palettes = (rows + group - 1) / group;
    const bool own = palettes > 1 && group % 16 != 0;  // rows lie alone
    const std::uint64_t unit = !own                     ? 32
                               : kept == 1 || kept == 3 ? 512
                               : kept == 2 || kept == 6 ? 256
                               : kept == 4              ? 128
                                                        : 64;
    const std::uint64_t codes = up_to_multiple(rows, own ? 1 : 16) * up_to_multiple(cols, unit) * kept / 8;
    const std::uint64_t beside = int8 && kept < 8 ? palettes * byte_entries + 2 * 4 * rows
                                                  : palettes * entries * 4 + (wish.row_scale ? 4 * rows : 0);
    const TensorPart* outliers = tensor.find("outlier_values");
    const std::uint64_t count = outliers == nullptr ? 0 : tensor.outlier_columns().size();
    return codes + beside + (outliers == nullptr ? 0 : count * (4 + 4) + (rows + 1) * 4);  // value, column; row starts
  }
  if (wish.spec.coding == Coding::kBlockPalette) {
    const bool halves = wish.spec.group_size % 32 != 0 && cols > wish.spec.group_size;
    const std::uint64_t width = halves && bits == 3 ? 4 : bits,
                        all = up_to_multiple(rows, 16) * up_to_multiple(cols, 32);
    const bool row_scales = wish.spec.scale_type != ScaleType::kFloat16;
    return all * width / 8 + all / (halves ? 16 : 32) * 2 +
           (int8 ? 16 + 4 * rows : (std::uint64_t{4} << width) + (row_scales ? 4 * rows : 0));
  }
  const std::uint64_t padded = up_to_multiple(cols, 32), all_rows = up_to_multiple(rows, 16);
  const std::uint64_t codes = all_rows * padded * kept / 8, grid = bits <= 4 ? entries * 4 : 0;
  const bool one_block = wish.spec.group_size == 0 || cols <= wish.spec.group_size;
  if (one_block && bits <= 4 && !wish.zero_points)  // a palette that all rows share
    return codes + (int8 ? byte_entries + 2 * 4 * rows : grid + 4 * rows);
  return codes + all_rows * padded / 32 * (wish.zero_points ? 2 + 1 : 2) + (int8 ? 0 : grid);
}

TEST(PackedLinear, CountsTheBytesThatAProductReads) {
  Random random(4);
  for (const TensorWish& wish : wishes(false)) {
    SCOPED_TRACE(describe(wish));
    const QuantizedTensor tensor = random_tensor(wish, random);
    for (const bool int8 : {false, true})
      EXPECT_EQ(make_packed_linear(tensor, {}, int8 ? Compute::kInt8 : Compute::kExact)->weight_bytes(),
                bytes_read(wish, tensor, int8))
          << (int8 ? "int8" : "exact");
  }
}

TEST(PackedLinear, IsWithinTheBoundOfItsContract) {
  Random random(2);
  for (const TensorWish& wish : wishes(false)) {
    SCOPED_TRACE(describe(wish));
    const QuantizedTensor tensor = random_tensor(wish, random);
    const auto op = make_packed_linear(tensor, {}, Compute::kExact);
    const Matrix<float> x = random_matrix(3, tensor.cols(), false, random);
    Matrix<float> y(3, tensor.rows());
    op->forward(x, y);
    const Reference expected = reference(tensor, x, {});
    const double padded = static_cast<double>(tensor.cols()) + 512;
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_TRUE(test::near(static_cast<double>(y.values()[i]), expected.y.values()[i],
                             {.abs = 2 * (padded + 4) * 0x1p-24 * expected.magnitude.values()[i] + 1e-30}));
  }
}

TEST(PackedLinear, Int8IsWithinTheBoundOfItsContract) {
  Random random(9);
  for (const TensorWish& wish : wishes(false)) {
    SCOPED_TRACE(describe(wish));
    const QuantizedTensor tensor = random_tensor(wish, random);
    const auto op = make_packed_linear(tensor, {}, Compute::kInt8);
    const Matrix<float> x = random_matrix(2, tensor.cols(), false, random);
    Matrix<float> y(2, tensor.rows());
    op->forward(x, y);
    std::vector<float> w(tensor.rows() * tensor.cols()), table, scale(tensor.rows(), 1.0f);
    tensor.decode_rows(0, tensor.rows(), w.data());
    if (const TensorPart* part = tensor.find("scale"))
      convert_to_f32(DType::kF16, part->bytes.data(), scale.size(), scale.data());
    std::vector<float> block_scale;
    if (wish.spec.coding == Coding::kBlockPalette) {
      const TensorPart& part = *tensor.find("block_scale");
      block_scale.resize(tensor.rows() * wish.spec.blocks());
      convert_to_f32(part.dtype, part.bytes.data(), block_scale.size(), block_scale.data());
      tensor.load_palette(0, table);
    }
    const bool zeros = tensor.find("block_zero") != nullptr;
    for (std::size_t t = 0; t < 2; ++t) {
      for (std::size_t r = 0; r < tensor.rows(); ++r) {
        double step = 0.0, sum = 0.0, bound = 0.0;
        if (wish.spec.coding == Coding::kPalette) {
          tensor.load_palette(wish.spec.group_size == 0 ? 0 : r / wish.spec.group_size, table);
          step = std::abs(static_cast<double>(scale[r])) * static_cast<double>(table.back() - table.front()) / 255;
        }
        for (std::size_t j = 0; j < tensor.cols(); ++j) {
          if (!block_scale.empty())  // entries in 127 steps of each sign
            step = std::abs(static_cast<double>(block_scale[r * wish.spec.blocks() + j / wish.spec.group_size])) *
                   static_cast<double>(tensor.tensor_scale() * std::max(std::abs(table.front()), table.back())) / 127;
          float largest = 0.0f;
          for (std::size_t k = j / 32 * 32; k < std::min(tensor.cols(), j / 32 * 32 + 32); ++k)
            largest = std::max(largest, std::abs(x(t, k)));
          const double value = static_cast<double>(w[r * tensor.cols() + j]), input = static_cast<double>(x(t, j));
          sum += value * input;
          const double s = static_cast<double>(largest) / 127;
          // The step's half times what x8 stands for, up to |x| + s / 2.
          bound += s / 2 * std::abs(value) + step / 2 * (std::abs(input) + s / 2);
          // Rounding of float32 sums, of bytes up to 255 steps, and of the exact fallback with zero points.
          bound += 1100 * 0x1p-24 * (std::abs(value) + 255 * step + (zeros ? 16.0 : 0.0)) * (std::abs(input) + s);
        }
        ASSERT_TRUE(test::near(static_cast<double>(y(t, r)), sum, {.abs = bound})) << "row " << r;
      }
    }
  }
}

TEST(PackedLinear, Int8PassesNaNOn) {
  Random random(10);
  const TensorWish wish{{Coding::kPalette, 5, 70, 4, 0, 1}};
  const auto op = make_packed_linear(random_tensor(wish, random), {}, Compute::kInt8);
  Matrix<float> x(1, 70), y(1, 5);
  x(0, 40) = std::numeric_limits<float>::quiet_NaN();
  op->forward(x, y);
  for (const float value : y.values()) EXPECT_TRUE(std::isnan(value));
}

// Float32 palettes may hold what 255 steps do not reach, or only with sums that no float holds: here of a palette that
// all share, and of a row's own beside one of usual values.
TEST(PackedLinear, Int8IsExactForPalettesWhoseValuesLieTooFarApart) {
  constexpr std::size_t kCols = 70;
  for (const float far : {2e38f, 1e38f}) {
    for (const std::size_t group : {std::size_t{0}, std::size_t{1}}) {
      SCOPED_TRACE(fmt::format("{}, {} rows share a palette", far, group));
      std::vector<float> palette{-far, 0.0f, 1.0f, far};
      if (group == 1) palette.insert(palette.begin(), {-2.0f, -1.0f, 0.0f, 1.0f});
      std::vector<std::uint8_t> codes(2 * kCols, 1);  // zeros
      if (group == 1) std::fill_n(codes.begin(), kCols, std::uint8_t{2});
      codes[kCols] = 3, codes[kCols + 1] = 0, codes[kCols + 40] = 2;
      const QuantizedTensor tensor =
          make_palette_tensor("w", {Coding::kPalette, 2, kCols, 2, group, 1}, codes, palette, DType::kF32, {});
      const auto op = make_packed_linear(tensor, {}, Compute::kInt8);
      EXPECT_EQ(op->kernel_name(), "packed_exact_" + std::string(active_vectors_name()));
      for (const std::size_t tokens : {1u, 9u}) {
        Matrix<float> x(tokens, kCols), y(tokens, 2);
        for (std::size_t t = 0; t < tokens; ++t) x(t, 0) = 0.5f, x(t, 1) = 0.25f, x(t, 2) = 8.0f, x(t, 40) = 1.0f;
        op->forward(x, y);
        for (std::size_t t = 0; t < tokens; ++t) {
          EXPECT_EQ(y(t, 0), 0.0f);
          EXPECT_EQ(y(t, 1), far * (0.5f - 0.25f));  // beside which the 1 is nothing
        }
      }
    }
  }
}

TEST(PackedLinear, DecodesJustTheValuesOfTheFormat) {
  Random random(3);
  for (const TensorWish& wish : wishes(false)) {
    SCOPED_TRACE(describe(wish));
    const QuantizedTensor tensor = random_tensor(wish, random);
    const auto op = make_packed_linear(tensor, {}, Compute::kExact);
    Matrix<float> identity(tensor.rows(), tensor.rows()), w(tensor.rows(), tensor.cols());
    for (std::size_t i = 0; i < tensor.rows(); ++i) identity(i, i) = 1.0f;
    op->backward_input(identity, w);  // dX = I W
    std::vector<float> expected(w.size());
    tensor.decode_rows(0, tensor.rows(), expected.data());
    ASSERT_TRUE(test::all_near(w.values(), expected, {}));
  }
}

TEST(PackedLinear, ATokenGetsTheSameBitsAloneAndInCompanyOnAnyNumberOfThreads) {
  Random random(4);
  const TensorWish wish{{Coding::kPalette, 200, 300, 4, 0, 1}};
  const auto op = make_packed_linear(random_tensor(wish, random), {}, Compute::kExact);
  const Matrix<float> x = random_matrix(7, 300, false, random);
  Matrix<float> together(7, 200), alone(7, 200);
  op->forward(x, together);
  set_thread_count(1);
  for (std::size_t t = 0; t < 7; ++t) op->forward(x.view().rows_slice(t, 1), alone.view().rows_slice(t, 1));
  set_thread_count(0);
  EXPECT_TRUE(test::same_bits(together.values(), alone.values()));
}

TEST(PackedLinear, RefusesWhatHasNoPackedLayout) {
  Random random(5);
  const TensorWish vectors{{Coding::kPalette, 8, 8, 4, 0, 2}}, narrow{{Coding::kBlocks, 8, 64, 4, 20, 1}};
  for (const TensorWish& wish : {vectors, narrow}) {
    EXPECT_FALSE(can_pack(wish.spec));
    const QuantizedTensor tensor = random_tensor(wish, random);
    EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { make_packed_linear(tensor, {}, Compute::kExact); }, "weight",
                                                   "no packed layout"));
  }
}

TEST(PackedLinear, RefusesPowersOfTwoThatNoFloat16OfARowHolds) {
  Random random(12);
  const TensorSpec spec{.coding = Coding::kBlockPalette,
                        .rows = 2,
                        .cols = 64,
                        .bits = 4,
                        .group_size = 32,
                        .block_palette = BlockPalette::kFp4,
                        .scale_type = ScaleType::kE8M0};
  std::vector<std::uint8_t> codes(128);
  for (auto& code : codes) code = static_cast<std::uint8_t>(random.below(16));
  const auto tensor = [&](float least) {
    return make_block_palette_tensor("w", spec, codes, {}, std::vector<float>{1.0f, 1.0f, 0x1p60f, least}, 1.0f);
  };
  const QuantizedTensor fits = tensor(0x1p21f);
  ASSERT_TRUE(can_pack(fits)) << "39 powers apart";
  EXPECT_FALSE(can_pack(tensor(0x1p20f)));
  std::vector<float> entries;
  fits.load_palette(0, entries);
  const auto zero = std::ranges::find(entries, 0.0f) - entries.begin();
  std::fill(codes.begin() + 96, codes.end(), static_cast<std::uint8_t>(zero));  // any scale is theirs
  const QuantizedTensor zeros = tensor(0x1p-127f);
  ASSERT_TRUE(can_pack(zeros));
  Matrix<float> ones(1, 64), sums(1, 2);
  for (std::size_t j = 0; j < 64; ++j) ones(0, j) = 1.0f;
  make_packed_linear(zeros, {}, Compute::kExact)->forward(ones, sums);
  double expected = 0.0;
  for (std::size_t j = 0; j < 32; ++j) expected += 0x1p60 * static_cast<double>(entries[codes[64 + j]]);
  EXPECT_TRUE(test::near(sums(0, 1), expected, {.abs = 0x1p60 * 32 * 6 * 0x1p-20}));  // 32 sums of entries up to 6
  Matrix<float> x(1, 64), y(1, 2);
  for (std::size_t j = 32; j < 64; ++j) x(0, j) = 1.0f;
  make_packed_linear(fits, {}, Compute::kExact)->forward(x, y);
  std::vector<float> w(128);
  fits.decode_rows(0, 2, w.data());
  float sum = 0.0f;
  for (std::size_t j = 32; j < 64; ++j) sum += w[64 + j];
  EXPECT_EQ(y(0, 1), sum) << "halves times one power of two";
}

TEST(PackedLinear, RefusesShapesThatDoNotFit) {
  Random random(6);
  const TensorWish wish{{Coding::kPalette, 5, 7, 4, 0, 1}};
  const QuantizedTensor tensor = random_tensor(wish, random);
  const auto op = make_packed_linear(tensor, {}, Compute::kExact);
  Matrix<float> x(1, 8), y(1, 5);
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { op->forward(x, y); }, "(5, 7)", "(1, 8)"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { make_packed_linear(tensor, std::vector<float>(4), Compute::kExact); }, "bias", "5", "4"));
}

TEST(PackedLinear, NamesTheKernelOfTheInstructionSetInForce) {
  Random random(7);
  const TensorWish wish{{Coding::kPalette, 5, 7, 4, 0, 1}};
  const auto op = make_packed_linear(random_tensor(wish, random), {}, Compute::kExact);
  EXPECT_EQ(op->kernel_name(), "packed_exact_" + std::string(active_vectors_name()));
}

TEST(PackedLinear, Int8RunsOnEveryInstructionSetButForPalettesOf8Bits) {
  Random random(11);
  const TensorWish four{{Coding::kPalette, 5, 7, 4, 0, 1}}, eight{{Coding::kPalette, 5, 7, 8, 0, 1}};
  const auto name = [&](const TensorWish& wish) {
    return make_packed_linear(random_tensor(wish, random), {}, Compute::kInt8)->kernel_name();
  };
  EXPECT_EQ(name(four), "packed_int8_" + test::isa_suffix(active_isa()));
  EXPECT_EQ(name(eight), "packed_exact_" + std::string(active_vectors_name()));
}

TEST(Compute, NamesGoBothWays) {
  EXPECT_EQ(compute_from_name("exact"), Compute::kExact);
  for (const Compute compute : {Compute::kBf16, Compute::kInt8})
    EXPECT_EQ(compute_from_name(compute_name(compute)), compute);
  EXPECT_EQ(compute_from_name("fast"), std::nullopt);
}

}  // namespace
}  // namespace nibble::quant

#include "quant/format/quantized_tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "core/random.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

struct PaletteExample {
  TensorSpec spec;
  std::vector<std::uint8_t> codes;
  std::vector<float> palette, scale;

  QuantizedTensor tensor(DType dtype = DType::kF16) const {
    return make_palette_tensor("h.0.attn.c_proj", spec, codes, palette, dtype, scale);
  }
  // w_ij = scale_i · palette[group(i)][code], element by element.
  std::vector<float> decoded() const {
    std::vector<float> out;
    const std::size_t per_row = spec.cols / spec.cluster_dim, entries = std::size_t{1} << spec.bits;
    for (std::size_t i = 0; i < spec.rows; ++i)
      for (std::size_t j = 0; j < spec.cols; ++j) {
        const std::size_t group = spec.group_size == 0 ? 0 : i / spec.group_size;
        const std::size_t code = codes[i * per_row + j / spec.cluster_dim];
        const float entry = palette[(group * entries + code) * spec.cluster_dim + j % spec.cluster_dim];
        out.push_back(scale.empty() ? entry : entry * scale[i]);
      }
    return out;
  }
};

float random_half(Random& random) { return round_to_f16(static_cast<float>(random.normal())); }

PaletteExample random_palette_example(TensorSpec spec, bool scaled, std::uint64_t seed) {
  Random random(seed);
  PaletteExample example{spec, {}, {}, {}};
  example.codes.resize(spec.rows * spec.codes_per_row());
  for (auto& code : example.codes) code = static_cast<std::uint8_t>(random.below(spec.entries()));
  example.palette.resize(spec.palettes() * spec.entries() * spec.cluster_dim);
  for (auto& value : example.palette) value = random_half(random);
  const auto entries = static_cast<std::ptrdiff_t>(spec.entries());
  if (spec.cluster_dim == 1)
    for (auto at = example.palette.begin(); at != example.palette.end(); at += entries) std::sort(at, at + entries);
  if (scaled)
    for (std::size_t i = 0; i < spec.rows; ++i) example.scale.push_back(random_half(random));
  return example;
}

std::vector<float> decode(const QuantizedTensor& tensor) {
  std::vector<float> out(tensor.rows() * tensor.cols());
  tensor.decode_rows(0, tensor.rows(), out.data());
  return out;
}

TEST(PaletteTensor, DecodesAsTheFormulaSaysAtEveryWidthGroupingAndOddSize) {
  std::uint64_t seed = 0;
  for (const unsigned bits : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u})
    for (const std::size_t group : {0u, 1u, 3u})
      for (const bool scaled : {false, true})
        for (const auto& [rows, cols] : {std::pair<std::size_t, std::size_t>{1, 1}, {7, 5}, {8, 16}, {5, 33}}) {
          SCOPED_TRACE(testing::Message()
                       << bits << " bits, groups of " << group << ", " << rows << " x " << cols << ", seed " << seed);
          const auto example = random_palette_example({Coding::kPalette, rows, cols, bits, group, 1}, scaled, seed++);
          EXPECT_TRUE(test::same_bits(decode(example.tensor()), example.decoded()));
          EXPECT_TRUE(test::same_bits(decode(example.tensor(DType::kF32)), example.decoded()));
        }
}

TEST(PaletteTensor, DecodesManyCodesOfOnePaletteAsItDecodesFew) {
  // From 2048 codes on, widths that divide a byte go through a table of bytes.
  for (const unsigned bits : {1u, 2u, 3u, 4u, 8u})
    for (const std::size_t group : {0u, 1u, 3u}) {
      SCOPED_TRACE(testing::Message() << bits << " bits, groups of " << group << ", seed " << bits + group);
      const auto example = random_palette_example({Coding::kPalette, 7, 2051, bits, group, 1}, bits == 3, bits + group);
      const auto all = example.decoded();
      EXPECT_TRUE(test::same_bits(decode(example.tensor()), all));
      std::vector<float> rows(4 * 2051);
      example.tensor().decode_rows(2, 6, rows.data());
      EXPECT_TRUE(test::same_bits(rows, std::span(all).subspan(2 * 2051, rows.size())));
    }
}

TEST(PaletteTensor, OfVectorsPutsEachEntryOverItsInputs) {
  for (const std::size_t dim : {2u, 4u}) {
    const auto example = random_palette_example({Coding::kPalette, 6, 12, 3, 2, dim}, false, dim);
    EXPECT_TRUE(test::same_bits(decode(example.tensor()), example.decoded()));
  }
}

TEST(PaletteTensor, DecodesAnyRangeOfRows) {
  const auto example = random_palette_example({Coding::kPalette, 10, 9, 4, 4, 1}, true, 3);
  const auto tensor = example.tensor();
  const auto all = example.decoded();
  for (std::size_t begin = 0; begin <= 10; ++begin)
    for (std::size_t end = begin; end <= 10; ++end) {
      std::vector<float> rows((end - begin) * 9);
      tensor.decode_rows(begin, end, rows.data());
      EXPECT_TRUE(test::same_bits(rows, std::span(all).subspan(begin * 9, rows.size()))) << begin << " to " << end;
    }
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { tensor.decode_rows(3, 11, nullptr); }, "rows [3, 11)", "10"));
}

TEST(PaletteTensor, CountsEveryStoredBit) {
  // 24 inputs of 3 bits are 9 bytes a row; 4 palettes of 8 float16; 7 scales of float16.
  const auto example = random_palette_example({Coding::kPalette, 7, 24, 3, 2, 1}, true, 4);
  EXPECT_EQ(example.tensor().stored_bits(), 7 * 9 * 8 + 4 * 8 * 16 + 7 * 16);
  EXPECT_EQ(example.tensor().weights(), 7 * 24);
}

// Windows of a random stream for each input.
Matrix<std::uint16_t> random_windows(const WindowedLayout& layout, std::uint64_t seed) {
  Random random(seed);
  Matrix<std::uint16_t> codes(layout.rows, layout.cols);
  for (std::size_t j = 0; j < layout.cols; ++j)
    for (std::size_t i = 0; i < layout.rows; ++i) {
      const std::uint64_t fresh = random.below(layout.entries());
      const unsigned shared = layout.window_bits - layout.bits;
      codes(i, j) = static_cast<std::uint16_t>(
          i == 0 ? fresh : (fresh >> shared << shared | static_cast<std::uint64_t>(codes(i - 1, j)) >> layout.bits));
    }
  return codes;
}

TEST(WindowedTensor, DecodesAsTheFormulaSaysAtEveryWidthAndOddSize) {
  std::uint64_t seed = 0;
  for (unsigned bits = 1; bits <= kMostWindowStep; ++bits)
    for (unsigned window_bits = std::max(kLeastWindowBits, bits + 1); window_bits <= kMostWindowBits; ++window_bits)
      for (const auto& [rows, cols] : {std::pair<std::size_t, std::size_t>{1, 1}, {7, 5}, {130, 3}, {64, 16}})
        for (const bool scaled : {false, true}) {
          SCOPED_TRACE(testing::Message()
                       << bits << " of " << window_bits << " bits, " << rows << " x " << cols << ", seed " << seed);
          const TensorSpec spec{.rows = rows, .cols = cols, .bits = bits, .window_bits = window_bits};
          Random random(seed++);
          const auto codes = random_windows(spec.windows(), seed);
          std::vector<float> palette(spec.entries()), scale(scaled ? rows : 0);
          for (float& value : palette) value = random_half(random);
          for (float& value : scale) value = random_half(random);
          const auto tensor = make_windowed_tensor("w", spec, codes, palette, DType::kF16, scale);
          std::vector<float> expected;
          for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < cols; ++j)
              expected.push_back(scaled ? palette[codes(i, j)] * scale[i] : palette[codes(i, j)]);
          ASSERT_TRUE(test::same_bits(decode(tensor), expected));
          Matrix<std::uint16_t> back(rows, cols);
          tensor.read_codes(0, back);
          ASSERT_TRUE(std::equal(back.values().begin(), back.values().end(), codes.values().begin()));
          std::vector<float> last(cols);
          tensor.decode_rows(rows - 1, rows, last.data());
          ASSERT_TRUE(test::same_bits(last, std::span(expected).last(cols)));
        }
}

TEST(WindowedTensor, CountsEveryStoredBit) {
  // 100 rows of 2 bits and 4 more: 204 bits, 26 bytes an input; 64 float16 and 100 scales.
  const TensorSpec spec{.rows = 100, .cols = 7, .bits = 2, .window_bits = 6};
  const auto tensor = make_windowed_tensor("w", spec, random_windows(spec.windows(), 1), std::vector<float>(64),
                                           DType::kF16, std::vector<float>(100));
  EXPECT_EQ(tensor.stored_bits(), 7 * 26 * 8 + 64 * 16 + 100 * 16);
}

TEST(WindowedTensor, TakesOtherValuesInAnyOrder) {
  const TensorSpec spec{.rows = 9, .cols = 4, .bits = 2, .window_bits = 4};
  std::vector<float> palette(16);
  for (std::size_t q = 0; q < 16; ++q) palette[q] = static_cast<float>((5 * q) % 16) - 8.0f;
  for (const DType dtype : {DType::kF16, DType::kI8}) {
    const auto tensor = make_windowed_tensor("w", spec, random_windows(spec.windows(), 2), palette, dtype, {});
    CodeValues values = code_values(tensor);
    EXPECT_TRUE(test::same_bits(values.palette, palette));
    std::reverse(values.palette.begin(), values.palette.end());
    EXPECT_TRUE(test::same_bits(code_values(with_code_values(tensor, values)).palette, values.palette));
  }
}

TEST(WindowedTensor, HasNoRowsOfCodes) {
  const TensorSpec spec{.rows = 3, .cols = 2, .bits = 2, .window_bits = 6};
  const auto codes = random_windows(spec.windows(), 3);
  const std::vector<float> palette(64);
  const auto tensor = make_windowed_tensor("w", spec, codes, palette, DType::kF16, {});
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { (void)tensor.code_row(0); }, "they have no rows"));
  Matrix<std::uint16_t> room(2, 2);
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { tensor.read_codes(2, room); }, "from row 2 on of (3, 2)"));
  auto broken = codes;
  broken(1, 0) = static_cast<std::uint16_t>(broken(1, 0) ^ 1u);
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { (void)make_windowed_tensor("w", spec, broken, palette, DType::kF16, {}); }, "row 1", "does not overlap"));
}

TEST(PaletteTensor, OfIntegersMultipliesByItsScale) {
  const std::vector<std::uint8_t> codes{0x21, 0x03};  // rows (1, 2) and (3, 0) of 4-bit codes
  std::vector<std::int8_t> palette(16, 127);
  palette[0] = -128, palette[1] = -3, palette[2] = 5, palette[3] = 100;
  const float unit = 0.125f;
  const auto part = [](std::string suffix, DType dtype, std::vector<std::uint64_t> shape, const auto& values) {
    return TensorPart{std::move(suffix), dtype, std::move(shape), std::as_bytes(std::span(values)), nullptr};
  };
  const QuantizedTensor tensor("p", {Coding::kPalette, 2, 2, 4, 0, 1},
                               {part("codes", DType::kU8, {2, 1}, codes), part("palette", DType::kI8, {1, 16}, palette),
                                part("palette_scale", DType::kF32, {1}, std::span(&unit, 1))});
  EXPECT_TRUE(test::same_bits(decode(tensor), std::vector<float>{-0.375f, 0.625f, 12.5f, -16.0f}));
  EXPECT_EQ(tensor.stored_bits(), 2 * 8 + 16 * 8 + 32);
}

TEST(PaletteTensor, AddsOutliersToTheDensePart) {
  auto example = random_palette_example({Coding::kPalette, 3, 4, 2, 0, 1}, false, 5);
  const auto dense = example.tensor();
  const std::vector<std::int32_t> rows{0, 2, 2, 3}, columns{0, 3, 2};
  const std::vector<std::uint16_t> values{f32_to_f16(2.0f), f32_to_f16(-1.5f), f32_to_f16(0.25f)};
  auto parts = dense.parts();
  parts.push_back({"outlier_rows", DType::kI32, {4}, std::as_bytes(std::span(rows)), nullptr});
  parts.push_back({"outlier_columns", DType::kI32, {3}, std::as_bytes(std::span(columns)), nullptr});
  parts.push_back({"outlier_values", DType::kF16, {3}, std::as_bytes(std::span(values)), nullptr});
  auto expected = example.decoded();
  expected[0] += 2.0f;
  expected[3] += -1.5f;
  expected[2 * 4 + 2] += 0.25f;
  EXPECT_TRUE(test::same_bits(decode(QuantizedTensor("p", example.spec, parts)), expected));
}

TEST(BlockTensor, DecodesAsTheFormulaSaysAtEveryWidthAndBlockSize) {
  std::uint64_t seed = 100;
  for (unsigned bits = 2; bits <= 8; ++bits)
    for (const std::size_t block : {0u, 4u, 32u})
      for (const bool with_zeros : {false, true})
        for (const std::size_t cols : {1u, 4u, 31u, 70u}) {  // 31 and 70 leave a short last block
          SCOPED_TRACE(testing::Message()
                       << bits << " bits, blocks of " << block << ", " << cols << " inputs, seed " << seed);
          Random random(seed++);
          const TensorSpec spec{Coding::kBlocks, 3, cols, bits, block, 1};
          const std::size_t width = block == 0 ? cols : block, blocks = (cols + width - 1) / width;
          std::vector<std::uint8_t> codes(3 * cols), zeros;
          std::vector<float> scales(3 * blocks), expected;
          for (auto& code : codes) code = static_cast<std::uint8_t>(random.below(spec.entries()));
          for (auto& scale : scales) scale = random_half(random);
          if (with_zeros)
            for (std::size_t i = 0; i < scales.size(); ++i)
              zeros.push_back(static_cast<std::uint8_t>(random.below(spec.entries())));
          for (std::size_t i = 0; i < 3; ++i)
            for (std::size_t j = 0; j < cols; ++j) {
              const std::size_t at = i * blocks + j / width;
              const int zero = with_zeros ? zeros[at] : 1 << (bits - 1);
              expected.push_back(static_cast<float>(codes[i * cols + j] - zero) * scales[at]);
            }
          const auto tensor = make_block_tensor("p", spec, codes, scales, zeros);
          EXPECT_TRUE(test::same_bits(decode(tensor), expected));
          const std::uint64_t per_row = (cols * bits + 7) / 8 * 8 + blocks * (with_zeros ? 24 : 16);
          EXPECT_EQ(tensor.stored_bits(), 3 * per_row);
        }
}

TEST(QuantizedTensor, IsALinearLayer) {
  const auto example = random_palette_example({Coding::kPalette, 5, 6, 4, 0, 1}, true, 8);
  const DecodingLinear linear(std::make_shared<const QuantizedTensor>(example.tensor()), {});
  const auto weight = example.decoded();
  Matrix<float> x(1, 6), y(1, 5);
  x(0, 3) = 1.0f;  // picks column 3 of W, exactly
  linear.forward(x, y);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(y(0, i), weight[i * 6 + 3]);
}

TEST(QuantizedTensor, StaysValidWhenMoved) {
  const auto example = random_palette_example({Coding::kPalette, 5, 6, 4, 0, 1}, true, 9);
  auto first = example.tensor();
  const QuantizedTensor second = std::move(first);
  EXPECT_TRUE(test::same_bits(decode(second), example.decoded()));
}

TEST(MakingATensor, RefusesValuesThatFloat16WouldChange) {
  auto example = random_palette_example({Coding::kPalette, 2, 2, 1, 0, 1}, true, 10);
  example.palette = {0.1f, 0.5f};
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { example.tensor(); }, "h.0.attn.c_proj.palette", "index 0",
                                                 "not a float16 value"));
  EXPECT_NO_THROW(example.tensor(DType::kF32));
  example.palette = {0.25f, std::numeric_limits<float>::infinity()};
  EXPECT_TRUE(test::throws_with<NumericalError>([&] { example.tensor(); }, "palette", "inf at index 1"));
  example.palette = {0.25f, 0.5f};
  example.scale[1] = 0.3f;
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { example.tensor(); }, "scale", "index 1"));
}

TEST(MakingATensor, RefusesCountsThatDoNotFit) {
  auto example = random_palette_example({Coding::kPalette, 4, 6, 3, 2, 1}, true, 11);
  const auto refused = [](PaletteExample bad, std::string_view words) {
    return test::throws_with<InvalidArgument>([&] { bad.tensor(); }, words);
  };
  auto bad = example;
  bad.codes.pop_back();
  EXPECT_TRUE(refused(bad, "expected 24 codes, got 23"));
  bad = example;
  bad.palette.pop_back();
  EXPECT_TRUE(refused(bad, "expected 16 palette values, got 15"));
  bad = example;
  bad.scale.pop_back();
  EXPECT_TRUE(refused(bad, "expected 4 scales, got 3"));
  bad = example;
  bad.codes[5] = 8;
  EXPECT_TRUE(refused(bad, "code 8"));
}

}  // namespace
}  // namespace nibble::quant

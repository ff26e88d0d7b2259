// Parts as a hostile or damaged file could hold them: each must be refused with a message that names the part.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>

#include "core/error.h"
#include "quant/format/quantized_tensor.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

template <class T>
TensorPart part(std::string suffix, DType dtype, std::vector<std::uint64_t> shape, std::vector<T> values) {
  const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
  return {std::move(suffix), dtype, std::move(shape), std::as_bytes(std::span(*owner)), owner};
}

constexpr std::uint16_t kOne = 0x3C00, kTwo = 0x4000, kInfinity = 0x7C00, kNan = 0x7E00;  // float16

struct Damaged {
  const char* name;
  std::function<void(TensorSpec&, std::vector<TensorPart>&)> damage;
  std::vector<std::string_view> message;
};

void expect_refused(const TensorSpec& spec, const std::vector<TensorPart>& parts, const Damaged& damaged) {
  TensorSpec bad_spec = spec;
  auto bad_parts = parts;
  damaged.damage(bad_spec, bad_parts);
  for (const auto words : damaged.message)
    EXPECT_TRUE(test::throws_with<FormatError>([&] { QuantizedTensor("mlp.c_fc", bad_spec, bad_parts); }, words))
        << damaged.name;
}

// A (3, 4) weight of 2 bits with two palettes, row scales and two outliers.
const TensorSpec kPaletteSpec{Coding::kPalette, 3, 4, 2, 2, 1};
std::vector<TensorPart> palette_parts() {
  return {part<std::uint8_t>("codes", DType::kU8, {3, 1}, {0x1B, 0x2C, 0xFF}),
          part<std::uint16_t>("palette", DType::kF16, {2, 4}, {0, kOne, kOne, kTwo, 0, 0, kOne, kTwo}),
          part<std::uint16_t>("scale", DType::kF16, {3}, {kOne, kTwo, kOne}),
          part<std::int32_t>("outlier_rows", DType::kI32, {4}, {0, 1, 1, 2}),
          part<std::int32_t>("outlier_columns", DType::kI32, {2}, {3, 0}),
          part<std::uint16_t>("outlier_values", DType::kF16, {2}, {kOne, kTwo})};
}

void replace(std::vector<TensorPart>& parts, TensorPart with) {
  for (auto& old : parts)
    if (old.suffix == with.suffix) old = with;
}

void drop(std::vector<TensorPart>& parts, std::string_view suffix) {
  std::erase_if(parts, [&](const TensorPart& p) { return p.suffix == suffix; });
}

TEST(HostilePaletteTensor, TheUndamagedOneIsFine) {
  EXPECT_NO_THROW(QuantizedTensor("p", kPaletteSpec, palette_parts()));
}

TEST(HostilePaletteTensor, IsRefusedWithTheReason) {
  constexpr float kHuge = std::numeric_limits<float>::max();
  const std::vector<Damaged> cases{
      {"no codes", [](auto&, auto& p) { drop(p, "codes"); }, {"mlp.c_fc.codes: missing"}},
      {"no palette", [](auto&, auto& p) { drop(p, "palette"); }, {"mlp.c_fc.palette: missing"}},
      {"codes of another type",
       [](auto&, auto& p) {
         replace(p, part<std::int8_t>("codes", DType::kI8, {3, 1}, {0, 0, 0}));
       },
       {"mlp.c_fc.codes", "expected U8, got I8"}},
      {"codes too short",
       [](auto&, auto& p) {
         replace(p, part<std::uint8_t>("codes", DType::kU8, {2, 1}, {0, 0}));
       },
       {"mlp.c_fc.codes", "expected shape (3, 1)", "got (2, 1)"}},
      {"codes with fewer bytes than their shape says",
       [](auto&, auto& p) {
         replace(p, part<std::uint8_t>("codes", DType::kU8, {3, 1}, {0, 0}));
       },
       {"mlp.c_fc.codes", "expected 3 bytes, got 2"}},
      {"a palette with fewer entries than codes can name",
       [](auto&, auto& p) {
         replace(p, part<std::uint16_t>("palette", DType::kF16, {2, 3}, {0, 0, 0, 0, 0, 0}));
       },
       {"mlp.c_fc.palette", "expected shape (2, 4)", "got (2, 3)"}},
      {"too few palettes",
       [](auto&, auto& p) {
         replace(p, part<std::uint16_t>("palette", DType::kF16, {1, 4}, {0, 0, 0, 0}));
       },
       {"mlp.c_fc.palette", "expected shape (2, 4)"}},
      {"a flat palette",
       [](auto&, auto& p) {
         replace(p, part<std::uint16_t>("palette", DType::kF16, {8}, std::vector<std::uint16_t>(8)));
       },
       {"mlp.c_fc.palette", "got (8)"}},
      {"a palette in BF16",
       [](auto&, auto& p) {
         replace(p, part<std::uint16_t>("palette", DType::kBF16, {2, 4}, std::vector<std::uint16_t>(8)));
       },
       {"mlp.c_fc.palette", "expected F16 or F32 or I8, got BF16"}},
      {"NaN in a palette",
       [](auto&, auto& p) {
         replace(p, part<std::uint16_t>("palette", DType::kF16, {2, 4}, {0, 0, 0, 0, 0, kNan, kOne, kTwo}));
       },
       {"mlp.c_fc.palette", "expected finite values", "index 5"}},
      {"a palette that descends",
       [](auto&, auto& p) {
         replace(p, part<std::uint16_t>("palette", DType::kF16, {2, 4}, {0, 0, 0, 0, 0, kTwo, kOne, kTwo}));
       },
       {"mlp.c_fc.palette", "ascending", "palette 1"}},
      {"infinity in a scale",
       [](auto&, auto& p) {
         replace(p, part<std::uint16_t>("scale", DType::kF16, {3}, {kOne, kOne, kInfinity}));
       },
       {"mlp.c_fc.scale", "finite", "index 2"}},
      {"a scale too many",
       [](auto&, auto& p) {
         replace(p, part<std::uint16_t>("scale", DType::kF16, {4}, {kOne, kOne, kOne, kOne}));
       },
       {"mlp.c_fc.scale", "expected shape (3)"}},
      {"products that overflow",
       [](auto&, auto& p) {
         replace(p, part<float>("palette", DType::kF32, {2, 4}, {0, 0, 0, kHuge, 0, 0, 0, 0}));
       },
       {"overflow float"}},
      {"an integer palette without its scale",
       [](auto&, auto& p) {
         replace(p, part<std::int8_t>("palette", DType::kI8, {2, 4}, std::vector<std::int8_t>(8)));
       },
       {"palette_scale"}},
      {"a palette scale without integers",
       [](auto&, auto& p) {
         p.push_back(part<float>("palette_scale", DType::kF32, {2}, {1, 1}));
       },
       {"palette_scale"}},
      {"a negative palette scale",
       [](auto&, auto& p) {
         replace(p, part<std::int8_t>("palette", DType::kI8, {2, 4}, std::vector<std::int8_t>(8)));
         p.push_back(part<float>("palette_scale", DType::kF32, {2}, {1, -1}));
       },
       {"palette_scale", ">= 0", "index 1"}},
      {"an unknown part",
       [](auto&, auto& p) {
         p.push_back(part<float>("shift", DType::kF32, {4}, {0, 0, 0, 0}));
       },
       {"mlp.c_fc.shift", "unknown part"}},
      {"a part of the other coding",
       [](auto&, auto& p) {
         p.push_back(part<std::uint16_t>("block_scale", DType::kF16, {3, 1}, {0, 0, 0}));
       },
       {"mlp.c_fc.block_scale", "unknown part of a palette tensor"}},
      {"a part twice", [](auto&, auto& p) { p.push_back(p[2]); }, {"mlp.c_fc.scale", "twice"}},
      {"outliers without rows", [](auto&, auto& p) { drop(p, "outlier_rows"); }, {"outlier_rows: missing"}},
      {"outliers without columns", [](auto&, auto& p) { drop(p, "outlier_columns"); }, {"outlier_columns: missing"}},
      {"outliers without values", [](auto&, auto& p) { drop(p, "outlier_values"); }, {"outlier_values: missing"}},
      {"outlier rows that do not begin at 0",
       [](auto&, auto& p) {
         replace(p, part<std::int32_t>("outlier_rows", DType::kI32, {4}, {1, 1, 1, 2}));
       },
       {"outlier_rows", "index 0 is 1"}},
      {"outlier rows that descend",
       [](auto&, auto& p) {
         replace(p, part<std::int32_t>("outlier_rows", DType::kI32, {4}, {0, 2, 1, 2}));
       },
       {"outlier_rows", "index 2 is 1"}},
      {"more outliers promised than stored",
       [](auto&, auto& p) {
         replace(p, part<std::int32_t>("outlier_rows", DType::kI32, {4}, {0, 1, 1, 2000000000}));
       },
       {"outlier_columns", "expected shape (2000000000)"}},
      {"an outlier outside the row",
       [](auto&, auto& p) {
         replace(p, part<std::int32_t>("outlier_columns", DType::kI32, {2}, {4, 0}));
       },
       {"outlier_columns", "below 4", "got 4"}},
      {"an outlier before the row",
       [](auto&, auto& p) {
         replace(p, part<std::int32_t>("outlier_columns", DType::kI32, {2}, {3, -1}));
       },
       {"outlier_columns", "got -1 at index 1"}},
      {"an outlier twice",
       [](auto&, auto& p) {
         replace(p, part<std::int32_t>("outlier_rows", DType::kI32, {4}, {0, 2, 2, 2}));
         replace(p, part<std::int32_t>("outlier_columns", DType::kI32, {2}, {1, 1}));
       },
       {"outlier_columns", "ascending", "row 0"}},
      {"an infinite outlier",
       [](auto&, auto& p) {
         replace(p, part<std::uint16_t>("outlier_values", DType::kF16, {2}, {kInfinity, 0}));
       },
       {"outlier_values", "finite", "index 0"}},
      {"no bits", [](auto& s, auto&) { s.bits = 0; }, {"mlp.c_fc", "1 to 8 bits, got 0"}},
      {"too many bits", [](auto& s, auto&) { s.bits = 60; }, {"mlp.c_fc", "1 to 8 bits, got 60"}},
      {"no rows", [](auto& s, auto&) { s.rows = 0; }, {"mlp.c_fc", "non-empty"}},
      {"vectors of three", [](auto& s, auto&) { s.cluster_dim = 3; }, {"cluster_dim", "got 3"}},
      {"vectors of none", [](auto& s, auto&) { s.cluster_dim = 0; }, {"cluster_dim", "got 0"}},
      {"vectors that do not fit", [](auto& s, auto&) { s.cols = 6, s.cluster_dim = 4; }, {"6 inputs", "vectors of 4"}},
      {"scaled vectors",
       [](auto& s, auto& p) {
         s.cluster_dim = 2;
         replace(p, part<std::uint16_t>("palette", DType::kF16, {2, 4, 2}, std::vector<std::uint16_t>(16)));
       },
       {"mlp.c_fc.scale", "vector palettes"}},
      {"rows whose bytes overflow 64 bits",
       [](auto& s, auto& p) {
         s.rows = ~std::size_t{0}, s.cols = 16;
         p[0].shape = {s.rows, 4};
       },
       {"overflows 64 bits"}},
  };
  for (const auto& damaged : cases) expect_refused(kPaletteSpec, palette_parts(), damaged);
}

// A (3, 2) weight of windows of 4 bits that go on by 2: 8 bits for each input.
const TensorSpec kWindowedSpec{.rows = 3, .cols = 2, .bits = 2, .window_bits = 4};
std::vector<TensorPart> windowed_parts() {
  std::vector<std::uint16_t> palette(16, kOne);
  palette[0] = kTwo;  // in no order
  return {part<std::uint8_t>("codes", DType::kU8, {2, 1}, {0x1B, 0x2C}),
          part<std::uint16_t>("palette", DType::kF16, {1, 16}, palette),
          part<std::uint16_t>("scale", DType::kF16, {3}, {kOne, kTwo, kOne})};
}

TEST(HostileWindowedTensor, TheUndamagedOneIsFine) {
  EXPECT_NO_THROW(QuantizedTensor("p", kWindowedSpec, windowed_parts()));
}

TEST(HostileWindowedTensor, IsRefusedWithTheReason) {
  const std::vector<Damaged> cases{
      {"windows of 3 bits", [](auto& s, auto&) { s.window_bits = 3; }, {"window_bits", "got 3"}},
      {"windows of 60 bits", [](auto& s, auto&) { s.window_bits = 60; }, {"window_bits", "got 60"}},
      {"windows that do not overlap", [](auto& s, auto&) { s.bits = 4; }, {"fewer than the 4 of a window"}},
      {"windows of blocks", [](auto& s, auto&) { s.coding = Coding::kBlocks; }, {"mlp.c_fc", "one palette"}},
      {"windows of groups of rows", [](auto& s, auto&) { s.group_size = 2; }, {"mlp.c_fc", "one palette"}},
      {"windows of vectors", [](auto& s, auto&) { s.cluster_dim = 2; }, {"mlp.c_fc", "one palette"}},
      {"codes by rows",
       [](auto&, auto& p) {
         replace(p, part<std::uint8_t>("codes", DType::kU8, {3, 1}, {0, 0, 0}));
       },
       {"mlp.c_fc.codes", "expected shape (2, 1)", "got (3, 1)"}},
      {"a stream without its last bits", [](auto& s, auto&) { s.window_bits = 5; }, {"mlp.c_fc.codes", "(2, 2)"}},
      {"a palette of codes",
       [](auto&, auto& p) {
         replace(p, part<std::uint16_t>("palette", DType::kF16, {1, 4}, {0, 0, 0, 0}));
       },
       {"mlp.c_fc.palette", "expected shape (1, 16)"}},
      {"NaN in the palette",
       [](auto&, auto& p) {
         replace(p, part<std::uint16_t>("palette", DType::kF16, {1, 16}, std::vector<std::uint16_t>(16, kNan)));
       },
       {"mlp.c_fc.palette", "finite", "index 0"}},
      {"outliers",
       [](auto&, auto& p) {
         p.push_back(part<std::int32_t>("outlier_rows", DType::kI32, {4}, {0, 0, 0, 0}));
         p.push_back(part<std::int32_t>("outlier_columns", DType::kI32, {0}, {}));
         p.push_back(part<std::uint16_t>("outlier_values", DType::kF16, {0}, {}));
       },
       {"outliers are not allowed"}},
      {"streams that overflow 64 bits", [](auto& s, auto&) { s.rows = ~std::size_t{0}; }, {"overflows 64 bits"}},
  };
  for (const auto& damaged : cases) expect_refused(kWindowedSpec, windowed_parts(), damaged);
}

// A (2, 5) weight of 4 bits in blocks of 4, the last one short.
const TensorSpec kBlockSpec{Coding::kBlocks, 2, 5, 4, 4, 1};
std::vector<TensorPart> block_parts() {
  return {part<std::uint8_t>("codes", DType::kU8, {2, 3}, {1, 2, 3, 4, 5, 6}),
          part<std::uint16_t>("block_scale", DType::kF16, {2, 2}, {kOne, kTwo, kOne, kTwo}),
          part<std::uint8_t>("block_zero", DType::kU8, {2, 2}, {0, 8, 15, 3})};
}

TEST(HostileBlockTensor, TheUndamagedOneIsFine) { EXPECT_NO_THROW(QuantizedTensor("p", kBlockSpec, block_parts())); }

TEST(HostileBlockTensor, IsRefusedWithTheReason) {
  const std::vector<Damaged> cases{
      {"no scales", [](auto&, auto& p) { drop(p, "block_scale"); }, {"mlp.c_fc.block_scale: missing"}},
      {"scales of whole rows",
       [](auto&, auto& p) {
         replace(p, part<std::uint16_t>("block_scale", DType::kF16, {2, 1}, {0, 0}));
       },
       {"mlp.c_fc.block_scale", "expected shape (2, 2)", "got (2, 1)"}},
      {"scales in float",
       [](auto&, auto& p) {
         replace(p, part<float>("block_scale", DType::kF32, {2, 2}, {0, 0, 0, 0}));
       },
       {"mlp.c_fc.block_scale", "expected F16, got F32"}},
      {"NaN in a scale",
       [](auto&, auto& p) {
         replace(p, part<std::uint16_t>("block_scale", DType::kF16, {2, 2}, {0, 0, 0, kNan}));
       },
       {"mlp.c_fc.block_scale", "finite", "index 3"}},
      {"zeros of another shape",
       [](auto&, auto& p) {
         replace(p, part<std::uint8_t>("block_zero", DType::kU8, {4}, {0, 0, 0, 0}));
       },
       {"mlp.c_fc.block_zero", "expected shape (2, 2)", "got (4)"}},
      {"a zero point that is no code",
       [](auto&, auto& p) {
         replace(p, part<std::uint8_t>("block_zero", DType::kU8, {2, 2}, {0, 8, 16, 15}));
       },
       {"mlp.c_fc.block_zero", "below 16", "got 16 at index 2"}},
      {"a palette", [](auto&, auto& p) { p.push_back(palette_parts()[1]); }, {"unknown part of a block tensor"}},
      {"vectors", [](auto& s, auto&) { s.cluster_dim = 2; }, {"cluster_dim", "got 2"}},
      {"another block size", [](auto& s, auto&) { s.group_size = 2; }, {"block_scale", "expected shape (2, 3)"}},
  };
  for (const auto& damaged : cases) expect_refused(kBlockSpec, block_parts(), damaged);
}

}  // namespace
}  // namespace nibble::quant

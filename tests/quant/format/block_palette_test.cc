// Palettes that blocks scale: their published values, the scales that are storable, and decoding.
#include "quant/format/block_palette.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "core/error.h"
#include "core/random.h"
#include "quant/format/quantized_tensor.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

// E2M1 by its definition (OCP MX 1.0, 5.3.3): sign, two bits of exponent of bias 1, one of fraction.
float e2m1(unsigned code) {
  const unsigned exponent = code >> 1 & 3, fraction = code & 1;
  const float magnitude = exponent == 0
                              ? 0.5f * static_cast<float>(fraction)
                              : std::ldexp(1.0f + 0.5f * static_cast<float>(fraction), static_cast<int>(exponent) - 1);
  return (code & 8) != 0 ? -magnitude : magnitude;
}

// E4M3 by its definition (OFP8 1.0): exponent of bias 7, three bits of fraction; 0x7F is NaN.
double e4m3(unsigned code) {
  const int exponent = static_cast<int>(code >> 3 & 15), fraction = static_cast<int>(code & 7);
  return exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
}

TEST(FixedPalettes, HaveThePublishedValues) {
  // QLoRA (arXiv:2305.14314), appendix E.
  const std::vector<float> nf4{-1.0f,
                               -0.6961928009986877f,
                               -0.5250730514526367f,
                               -0.39491748809814453f,
                               -0.28444138169288635f,
                               -0.18477343022823334f,
                               -0.09105003625154495f,
                               0.0f,
                               0.07958029955625534f,
                               0.16093020141124725f,
                               0.24611230194568634f,
                               0.33791524171829224f,
                               0.44070982933044434f,
                               0.5626170039176941f,
                               0.7229568362236023f,
                               1.0f};
  EXPECT_TRUE(test::same_bits(fixed_palette(BlockPalette::kNf4), nf4));
  const std::vector<float> iq4_nl{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};  // ggml
  EXPECT_TRUE(test::same_bits(fixed_palette(BlockPalette::kIq4Nl), iq4_nl));
  EXPECT_TRUE(fixed_palette(BlockPalette::kLearned).empty());
}

TEST(FixedPalettes, OfFp4AreE2M1InOrder) {
  const auto entries = fixed_palette(BlockPalette::kFp4);
  std::vector<bool> seen(16);
  ASSERT_EQ(entries.size(), 16u);
  ASSERT_TRUE(std::is_sorted(entries.begin(), entries.end()));
  for (std::size_t i = 0; i < 16; ++i) {
    const unsigned code = e2m1_codes()[i];
    EXPECT_EQ(entries[i], e2m1(code)) << "entry " << i;
    seen[code] = true;
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 16) << "each code once";
}

TEST(FixedPalettes, OfNf4AreTheQuantilesTheyAreSaidToBe) {
  // The published construction: midpoint quantiles of the normal distribution, 8 on the positive side from 0.5 and 7 on
  // the negative one to an outermost probability of 0.9677083, divided by the largest.
  const auto quantile = [](double p) {  // by bisection of the distribution function
    double low = -10.0, high = 10.0;
    for (int i = 0; i < 200; ++i) {
      const double middle = 0.5 * (low + high);
      (0.5 * std::erfc(-middle / std::sqrt(2.0)) < p ? low : high) = middle;
    }
    return low;
  };
  constexpr double kOutermost = 0.9677083;
  std::vector<double> expected{0.0};
  for (int i = 0; i < 8; ++i) expected.push_back(quantile(kOutermost + (0.5 - kOutermost) * i / 8.0));
  for (int i = 0; i < 7; ++i) expected.push_back(-quantile(kOutermost + (0.5 - kOutermost) * i / 7.0));
  std::sort(expected.begin(), expected.end());
  const double largest = expected.back();
  for (std::size_t i = 0; i < 16; ++i)
    EXPECT_TRUE(test::near(static_cast<double>(fixed_palette(BlockPalette::kNf4)[i]), expected[i] / largest,
                           {.abs = 1e-5}))  // float32 quantiles, made by another program
        << "entry " << i;
}

TEST(StoredScales, AreTheNearestOfAllThatThereAre) {
  Random random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    const auto value = static_cast<float>(std::exp2(20.0 * random.uniform() - 11.0));
    // E4M3: the nearest of all 127 magnitudes.
    double best = std::numeric_limits<double>::infinity(), nearest = 0.0;
    for (unsigned code = 0; code < 127; ++code) {
      const double distance = std::abs(e4m3(code) - static_cast<double>(value));
      if (distance < best) {
        best = distance;
        nearest = e4m3(code);
      }
    }
    EXPECT_EQ(static_cast<double>(round_scale(value, ScaleType::kE4M3)), nearest) << value;
    // E8M0: no power of two is nearer.
    const auto power = static_cast<double>(round_scale(value, ScaleType::kE8M0));
    const double distance = std::abs(power - static_cast<double>(value));
    EXPECT_EQ(std::log2(power), std::floor(std::log2(power)));
    EXPECT_LE(distance, std::abs(2.0 * power - static_cast<double>(value)));
    EXPECT_LE(distance, std::abs(0.5 * power - static_cast<double>(value)));
    EXPECT_EQ(round_scale(-value, ScaleType::kFloat16), -round_to_f16(value));
  }
}

TEST(StoredScales, HaveHalvesGoToEvenAndEndsStay) {
  for (unsigned code = 0; code < 126; ++code) {
    const double middle = 0.5 * (e4m3(code) + e4m3(code + 1));
    EXPECT_EQ(scale_bits(static_cast<float>(middle), ScaleType::kE4M3), code + code % 2) << "between codes";
    EXPECT_EQ(scale_bits(static_cast<float>(e4m3(code)), ScaleType::kE4M3), code);
  }
  EXPECT_EQ(round_scale(1e30f, ScaleType::kE4M3), 448.0f);
  EXPECT_EQ(largest_scale(ScaleType::kE4M3), 448.0f);
  EXPECT_EQ(round_scale(0.0f, ScaleType::kE8M0), 0x1p-127f);
  EXPECT_EQ(round_scale(std::numeric_limits<float>::max(), ScaleType::kE8M0), 0x1p127f);
  EXPECT_EQ(round_scale(1.5f, ScaleType::kE8M0), 2.0f);
  EXPECT_EQ(round_scale(1e9f, ScaleType::kFloat16), 65504.0f);
  for (unsigned code = 0; code < 255; ++code)
    EXPECT_EQ(scale_bits(std::ldexp(1.0f, static_cast<int>(code) - 127), ScaleType::kE8M0), code);
}

struct Example {
  TensorSpec spec;
  std::vector<std::uint8_t> codes;
  std::vector<float> palette, scales;
  float tensor_scale = 1.0f;

  QuantizedTensor tensor() const {
    return make_block_palette_tensor("h.0.mlp.c_fc", spec, codes, palette, scales, tensor_scale);
  }
};

Example random_example(const TensorSpec& spec, std::uint64_t seed) {
  Random random(seed);
  Example example{spec, {}, {}, {}, spec.scale_type == ScaleType::kE4M3 ? 0.0123f : 1.0f};
  for (std::size_t i = 0; i < spec.rows * spec.cols; ++i)
    example.codes.push_back(static_cast<std::uint8_t>(random.below(spec.entries())));
  if (spec.block_palette == BlockPalette::kLearned) {
    for (std::size_t i = 0; i < spec.entries(); ++i)
      example.palette.push_back(round_to_f16(static_cast<float>(random.normal())));
    std::sort(example.palette.begin(), example.palette.end());
  }
  for (std::size_t i = 0; i < spec.rows * spec.blocks(); ++i) {
    const auto value = static_cast<float>(random.normal());
    example.scales.push_back(
        round_scale(spec.scale_type == ScaleType::kFloat16 ? value : std::abs(value), spec.scale_type));
  }
  return example;
}

TEST(BlockPaletteTensor, DecodesAsTheFormulaSaysWithEveryPaletteAndScale) {
  std::uint64_t seed = 0;
  for (const BlockPalette palette : kBlockPalettes)
    for (const ScaleType scale : kScaleTypes)
      for (const unsigned bits : {2u, 3u, 4u}) {
        if (palette != BlockPalette::kLearned && bits != 4) continue;
        for (const auto& [rows, cols, block] :
             {std::array<std::size_t, 3>{1, 1, 16}, {3, 16, 16}, {5, 70, 32}, {4, 33, 0}}) {
          SCOPED_TRACE(testing::Message() << block_palette_name(palette) << " " << scale_type_name(scale) << " " << bits
                                          << " bits, " << rows << " x " << cols << ", seed " << seed);
          const Example example = random_example({.coding = Coding::kBlockPalette,
                                                  .rows = rows,
                                                  .cols = cols,
                                                  .bits = bits,
                                                  .group_size = block,
                                                  .block_palette = palette,
                                                  .scale_type = scale},
                                                 seed++);
          const QuantizedTensor tensor = example.tensor();
          const auto entries =
              palette == BlockPalette::kLearned ? std::span<const float>(example.palette) : fixed_palette(palette);
          const std::size_t width = block == 0 ? cols : block, blocks = (cols + width - 1) / width;
          std::vector<float> expected, decoded(rows * cols);
          for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < cols; ++j)
              expected.push_back(entries[example.codes[i * cols + j]] *
                                 (example.scales[i * blocks + j / width] * example.tensor_scale));
          tensor.decode_rows(0, rows, decoded.data());
          EXPECT_TRUE(test::same_bits(decoded, expected));
          // All that is stored: codes in whole bytes a row, scales, the palette and the tensor's scale.
          const std::size_t scale_bits_each = scale == ScaleType::kFloat16 ? 16 : 8;
          EXPECT_EQ(tensor.stored_bits(), rows * ((cols * bits + 7) / 8) * 8 + rows * blocks * scale_bits_each +
                                              (palette == BlockPalette::kLearned ? (16u << bits) : 0u) +
                                              (scale == ScaleType::kE4M3 ? 32u : 0u));
        }
      }
}

// MXFP4 as gpt-oss publishes it and NVFP4 as its makers describe it, from bytes: a code's value by E2M1's definition,
// times the scale by its own.
TEST(BlockPaletteTensor, DecodesMxfp4AndNvfp4AsTheirSpecificationsDo) {
  Random random(3);
  for (const bool mx : {true, false}) {
    const std::size_t block = mx ? 32 : 16, cols = 64, blocks = cols / block;
    const float global = mx ? 1.0f : 0.0371f;
    std::vector<std::uint8_t> entry_of(16), foreign(cols), codes(cols), scale_bytes(blocks);
    for (std::size_t i = 0; i < 16; ++i) entry_of[e2m1_codes()[i]] = static_cast<std::uint8_t>(i);
    for (std::size_t j = 0; j < cols; ++j) {
      foreign[j] = static_cast<std::uint8_t>(random.below(16));
      codes[j] = entry_of[foreign[j]];
    }
    std::vector<float> scales, expected, decoded(cols);
    for (auto& byte : scale_bytes) {
      byte = static_cast<std::uint8_t>(mx ? 110 + random.below(30) : random.below(127));
      scales.push_back(mx ? std::ldexp(1.0f, byte - 127) : static_cast<float>(e4m3(byte)));
    }
    for (std::size_t j = 0; j < cols; ++j) expected.push_back(e2m1(foreign[j]) * (scales[j / block] * global));
    const TensorSpec spec{.coding = Coding::kBlockPalette,
                          .rows = 1,
                          .cols = cols,
                          .bits = 4,
                          .group_size = block,
                          .block_palette = BlockPalette::kFp4,
                          .scale_type = mx ? ScaleType::kE8M0 : ScaleType::kE4M3};
    const QuantizedTensor tensor = make_block_palette_tensor("w", spec, codes, {}, scales, global);
    tensor.decode_rows(0, 1, decoded.data());
    for (std::size_t j = 0; j < cols; ++j) EXPECT_EQ(decoded[j], expected[j]) << j;  // but for the sign of 0
    const TensorPart& stored = *tensor.find("block_scale");
    EXPECT_EQ(std::memcmp(stored.bytes.data(), scale_bytes.data(), blocks), 0);
  }
}

TEST(BlockPaletteTensor, TakesValuesInsteadOfItsOwn) {
  const TensorSpec spec{.coding = Coding::kBlockPalette, .rows = 3, .cols = 40, .bits = 3, .group_size = 16};
  const Example example = random_example(spec, 5);
  const QuantizedTensor tensor = example.tensor();
  CodeValues values = code_values(tensor);
  EXPECT_TRUE(test::same_bits(values.palette, example.palette));
  EXPECT_TRUE(test::same_bits(values.scale, example.scales));
  for (float& entry : values.palette) entry *= 2.0f;
  for (float& scale : values.scale) scale *= 0.5f;
  std::vector<float> before(120), after(120);
  tensor.decode_rows(0, 3, before.data());
  with_code_values(tensor, values).decode_rows(0, 3, after.data());
  EXPECT_TRUE(test::same_bits(after, before)) << "powers of two";
  // Scales that are no floats of 16 bits do not change.
  TensorSpec other = spec;
  other.scale_type = ScaleType::kE8M0;
  EXPECT_TRUE(code_values(random_example(other, 6).tensor()).scale.empty());
}

template <class T>
TensorPart part(std::string suffix, DType dtype, std::vector<std::uint64_t> shape, std::vector<T> values) {
  const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
  return {std::move(suffix), dtype, std::move(shape), std::as_bytes(std::span(*owner)), owner};
}

TEST(HostileBlockPaletteTensor, IsRefusedWithTheReason) {
  struct Damaged {
    const char* name;
    std::function<void(TensorSpec&, std::vector<TensorPart>&)> damage;
    std::string_view message;
  };
  constexpr std::uint16_t kOne = 0x3C00, kTwo = 0x4000, kInfinity = 0x7C00;
  // (2, 20) learned of 2 bits, blocks of 16, E4M3 with a tensor's scale.
  const TensorSpec spec{.coding = Coding::kBlockPalette,
                        .rows = 2,
                        .cols = 20,
                        .bits = 2,
                        .group_size = 16,
                        .scale_type = ScaleType::kE4M3};
  const auto parts = [] {
    return std::vector<TensorPart>{part<std::uint8_t>("codes", DType::kU8, {2, 5}, std::vector<std::uint8_t>(10, 0x1B)),
                                   part<std::uint16_t>("palette", DType::kF16, {1, 4}, {0, kOne, kOne, kTwo}),
                                   part<std::uint8_t>("block_scale", DType::kF8E4M3, {2, 2}, {1, 2, 3, 0x7E}),
                                   part<float>("tensor_scale", DType::kF32, {1}, {0.5f})};
  };
  ASSERT_NO_THROW(QuantizedTensor("w", spec, parts()));
  const auto set = [](std::vector<TensorPart>& p, TensorPart with) {
    for (auto& old : p)
      if (old.suffix == with.suffix) old = with;
  };
  const auto drop = [](std::vector<TensorPart>& p, std::string_view suffix) {
    std::erase_if(p, [&](const TensorPart& one) { return one.suffix == suffix; });
  };
  const std::vector<Damaged> cases{
      {"no scales", [&](auto&, auto& p) { drop(p, "block_scale"); }, "w.block_scale: missing"},
      {"no tensor scale", [&](auto&, auto& p) { drop(p, "tensor_scale"); }, "w.tensor_scale: goes with scales in E4M3"},
      {"no palette", [&](auto&, auto& p) { drop(p, "palette"); }, "w.palette: a learned palette is stored"},
      {"a palette beside a fixed one",
       [&](auto& s, auto&) {
         s.bits = 4;
         s.block_palette = BlockPalette::kNf4;
       },
       "w."},
      {"a fixed palette of 2 bits", [&](auto& s, auto&) { s.block_palette = BlockPalette::kFp4; },
       "the palette fp4 has codes of 4 bits, got 2"},
      {"scales of another type",
       [&](auto&, auto& p) {
         set(p, part<std::uint8_t>("block_scale", DType::kF8E8M0, {2, 2}, {1, 2, 3, 4}));
       },
       "w.block_scale: expected F8_E4M3, got F8_E8M0"},
      {"too few scales",
       [&](auto&, auto& p) {
         set(p, part<std::uint8_t>("block_scale", DType::kF8E4M3, {2, 1}, {1, 2}));
       },
       "w.block_scale: expected shape (2, 2)"},
      {"a NaN among scales",
       [&](auto&, auto& p) {
         set(p, part<std::uint8_t>("block_scale", DType::kF8E4M3, {2, 2}, {1, 2, 3, 0x7F}));
       },
       "w.block_scale: expected finite values"},
      {"a negative scale",
       [&](auto&, auto& p) {
         set(p, part<std::uint8_t>("block_scale", DType::kF8E4M3, {2, 2}, {1, 0x82, 3, 4}));
       },
       "w.block_scale: expected values >= 0"},
      {"scales by a power of two that is NaN",
       [&](auto& s, auto& p) {
         s.scale_type = ScaleType::kE8M0;
         drop(p, "tensor_scale");
         set(p, part<std::uint8_t>("block_scale", DType::kF8E8M0, {2, 2}, {1, 2, 3, 255}));
       },
       "w.block_scale: expected finite values"},
      {"products beyond float",
       [&](auto& s, auto& p) {
         s.scale_type = ScaleType::kE8M0;
         drop(p, "tensor_scale");
         set(p, part<std::uint8_t>("block_scale", DType::kF8E8M0, {2, 2}, {1, 2, 3, 254}));
       },
       "overflow float"},
      {"a tensor scale of 0", [&](auto&, auto& p) { set(p, part<float>("tensor_scale", DType::kF32, {1}, {0.0f})); },
       "w.tensor_scale: expected a finite value above 0"},
      {"entries out of order",
       [&](auto&, auto& p) {
         set(p, part<std::uint16_t>("palette", DType::kF16, {1, 4}, {kOne, 0, kOne, kTwo}));
       },
       "w.palette: expected ascending entries"},
      {"an infinite entry",
       [&](auto&, auto& p) {
         set(p, part<std::uint16_t>("palette", DType::kF16, {1, 4}, {0, kOne, kTwo, kInfinity}));
       },
       "w.palette: expected finite values"},
      {"a part of blocks",
       [&](auto&, auto& p) {
         p.push_back(part<std::uint8_t>("block_zero", DType::kU8, {2, 2}, {1, 2, 3, 4}));
       },
       "w.block_zero: unknown part of a block palette tensor"},
  };
  for (const Damaged& damaged : cases) {
    TensorSpec bad_spec = spec;
    auto bad_parts = parts();
    damaged.damage(bad_spec, bad_parts);
    EXPECT_TRUE(test::throws_with<FormatError>([&] { QuantizedTensor("w", bad_spec, bad_parts); }, damaged.message))
        << damaged.name;
  }
}

TEST(MakeBlockPaletteTensor, WantsScalesThatItsTypeHolds) {
  TensorSpec spec{.coding = Coding::kBlockPalette,
                  .rows = 1,
                  .cols = 32,
                  .bits = 4,
                  .group_size = 32,
                  .block_palette = BlockPalette::kFp4,
                  .scale_type = ScaleType::kE8M0};
  const std::vector<std::uint8_t> codes(32);
  const auto make = [&](float scale) {
    (void)make_block_palette_tensor("w", spec, codes, {}, std::vector<float>{scale}, 1.0f);
  };
  EXPECT_NO_THROW(make(0.25f));
  EXPECT_TRUE(
      test::throws_with<InvalidArgument>([&] { make(0.3f); }, "w.block_scale: 0.3 at index 0 is no e8m0 value"));
  spec.scale_type = ScaleType::kE4M3;
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { make(449.0f); }, "is no e4m3 value"));
}

}  // namespace
}  // namespace nibble::quant

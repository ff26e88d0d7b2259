#include "model/checkpoint/narrow_tensors.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/random.h"
#include "model/checkpoint/weights.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"
#include "tests/support/tiny_checkpoint.h"

namespace nibble::model {
namespace {

using test::same_bits;
using test::TempDir;
using test::throws_with;
using test::TinyTensor;

constexpr double kFp4[] = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};

std::string config_json(const std::string& quantization = "null") {
  return R"({"model_type": "llama", "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 1,
             "num_attention_heads": 2, "intermediate_size": 27, "max_position_embeddings": 64,
             "hidden_act": "silu", "quantization_config": )" +
         quantization + "}";
}

std::string random_bytes(std::size_t count, std::uint64_t seed, unsigned below = 256) {
  Random random(seed);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.below(below));
  return bytes;
}

unsigned byte_at(const std::string& bytes, std::size_t i) { return static_cast<unsigned char>(bytes.at(i)); }

double fp4(unsigned code) { return (code & 8u) != 0 ? -kFp4[code & 7u] : kFp4[code & 7u]; }

/// A parameter whose weight lies at `place`.
Parameter parameter_at(const Stored& place) {
  Parameter parameter;
  parameter.out = place.part.count, parameter.in = place.cols;
  parameter.weight = place;
  parameter.weight_module = "none";
  return parameter;
}

Stored stack(const std::string& tensor, std::size_t slices, std::size_t slice, std::size_t rows, std::size_t cols,
             bool transposed) {
  Stored place = whole_matrix(tensor, rows, cols, transposed);
  place.slices = slices, place.slice = slice;
  return place;
}

std::vector<float> all_rows(const WeightSource& source) {
  std::vector<float> values(source.rows() * source.cols(), -7.0f);
  source.decode_rows(0, source.rows(), values.data());
  return values;
}

class Narrow : public testing::Test {
 protected:
  void write(const std::vector<TinyTensor>& tensors, const std::string& quantization = "null") {
    test::write_checkpoint(directory_.path(), config_json(quantization), tensors);
    checkpoint_ = Checkpoint::open(directory_.path());
  }
  std::shared_ptr<const WeightSource> matrix(const Stored& place) const {
    return make_float_provider(checkpoint_)->matrix(parameter_at(place));
  }
  template <class... Words>
  testing::AssertionResult refuses(const Stored& place, Words... words) const {
    return throws_with<FormatError>([&] { matrix(place); }, words...);
  }

  TempDir directory_;
  std::shared_ptr<const Checkpoint> checkpoint_;
};

// (slices, out, in / 32, 16) at an odd address; every code and every scale that no product of which is infinite.
TEST_F(Narrow, Mxfp4GivesWhatPlainLoopsGiveForEveryRowOfEverySlice) {
  constexpr std::size_t kSlices = 3, kRows = 7, kGroups = 3, kCols = 32 * kGroups;
  const std::string codes = random_bytes(kSlices * kRows * kGroups * 16, 1);
  const std::string scales = random_bytes(kSlices * kRows * kGroups, 2, 253);
  write({{"odd", "U8", {1}, "#"},
         {"w_blocks", "U8", {kSlices, kRows, kGroups, 16}, codes},
         {"w_scales", "U8", {kSlices, kRows, kGroups}, scales}});
  for (std::size_t slice = 0; slice < kSlices; ++slice) {
    std::vector<float> expected;
    for (std::size_t r = 0; r < kRows; ++r)
      for (std::size_t c = 0; c < kCols; ++c) {
        const std::size_t group = (slice * kRows + r) * kGroups + c / 32;
        const unsigned pair = byte_at(codes, group * 16 + c % 32 / 2);
        const double code = fp4(c % 2 == 0 ? pair & 15u : pair >> 4);
        expected.push_back(static_cast<float>(std::ldexp(code, static_cast<int>(byte_at(scales, group)) - 127)));
      }
    // Rows of outputs, whichever way the architecture stores floats.
    for (const bool transposed : {false, true}) {
      Stored place = stack("w", kSlices, slice, kRows, kCols, transposed);
      const auto source = matrix(place);
      ASSERT_EQ(source->rows(), kRows);
      ASSERT_EQ(source->cols(), kCols);
      EXPECT_TRUE(same_bits(all_rows(*source), expected)) << slice;
      std::vector<float> some(2 * kCols);
      source->decode_rows(3, 5, some.data());
      EXPECT_TRUE(same_bits(some, std::span<const float>(expected).subspan(3 * kCols, 2 * kCols)));
      place.part = {1, 1, 2, 3};  // up in alternate rows
      std::vector<float> odd;
      for (std::size_t r = 1; r < kRows; r += 2)
        odd.insert(odd.end(), &expected[r * kCols], &expected[r * kCols] + kCols);
      EXPECT_TRUE(same_bits(all_rows(*matrix(place)), odd));
    }
  }
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [&] {
        std::vector<float> room(kCols);
        matrix(stack("w", kSlices, 0, kRows, kCols, false))->decode_rows(kRows, kRows + 1, room.data());
      },
      "rows [7, 8) of 7"));
}

TEST_F(Narrow, EightBitFloatsOfThisProgramsOwnCheckpointsAreNoWeights) {
  const std::vector<TinyTensor> tensors{{"m.block_scale", "F8_E4M3", {2, 2}, std::string(4, '\x38')}};
  write(tensors);
  EXPECT_TRUE(throws_with<FormatError>([&] { (void)NarrowTensors(*checkpoint_).find("m.block_scale"); },
                                       "is F8_E4M3, whose values need scales"));
  write(tensors, R"({"quant_method": "nibble"})");
  const NarrowTensors own(*checkpoint_);
  EXPECT_FALSE(own.find("m.block_scale").has_value());
  EXPECT_FALSE(own.part_of("m.block_scale").has_value());
}

TEST_F(Narrow, Mxfp4BeyondFloatIsInfiniteAndItsNanScaleIsNan) {
  write({{"w_blocks", "U8", {1, 2, 16}, std::string(32, '\x72')},
         {"w_scales", "U8", {1, 2}, std::string("\xFE\xFF", 2)}});
  const std::vector<float> values = all_rows(*matrix(whole_matrix("w", 1, 64)));
  EXPECT_TRUE(same_bits(std::span(values).first(1), std::vector<float>{0x1p127f}));
  EXPECT_TRUE(std::isinf(values[1]));
  EXPECT_TRUE(std::isnan(values[32]));
}

TEST_F(Narrow, Mxfp4OfAnotherShapeIsRefused) {
  const auto blocks = [](std::vector<std::uint64_t> shape) {
    std::size_t size = 1;
    for (const auto extent : shape) size *= extent;
    return TinyTensor{"w_blocks", "U8", std::move(shape), std::string(size, '\0')};
  };
  const TinyTensor scales{"w_scales", "U8", {2, 4, 1}, std::string(8, '\0')};
  const Stored place = stack("w", 2, 0, 4, 32, true);
  write({blocks({2, 4, 1, 16}), scales});
  EXPECT_EQ(matrix(place)->cols(), 32u);
  EXPECT_TRUE(refuses(stack("w", 2, 0, 4, 48, true), "'w_blocks'", "groups of 32", "48 inputs"));
  EXPECT_TRUE(refuses(stack("w", 2, 0, 4, 64, true), "'w_scales'", "(2, 4, 2)", "(2, 4, 1)"));
  EXPECT_TRUE(refuses(stack("w", 3, 0, 4, 32, true), "'w_scales'", "(3, 4, 1)"));
  write({blocks({2, 4, 16}), scales});
  EXPECT_TRUE(refuses(place, "'w_blocks'", "(2, 4, 1, 16)", "(2, 4, 16)"));
  write({blocks({2, 4, 1, 8}), scales});
  EXPECT_TRUE(refuses(place, "'w_blocks'", "(2, 4, 1, 8)"));
  write({blocks({2, 4, 1, 16})});
  EXPECT_TRUE(refuses(place, "missing tensor 'w_scales'"));
  write({{"w_blocks", "I8", {2, 4, 1, 16}, std::string(128, '\0')}, scales});
  EXPECT_TRUE(refuses(place, "'w_blocks'", "expected U8", "I8"));
  write({blocks({2, 4, 1, 16}), {"w_scales", "F16", {2, 4, 1}, std::string(16, '\0')}});
  EXPECT_TRUE(refuses(place, "'w_scales'", "expected U8", "F16"));
  write({scales});
  EXPECT_TRUE(refuses(place, "missing tensor 'w'"));
}

// How scales can be shared, by shape and by which rows and columns (as stored) share one.
struct Sharing {
  std::vector<std::uint64_t> shape;
  std::size_t rows, cols;
};

TEST_F(Narrow, Fp8GivesWhatPlainLoopsGiveHoweverScalesAreShared) {
  constexpr std::size_t kRows = 37, kCols = 53;  // as stored; blocks of (8, 16) end short both ways
  const std::string config = R"({"quant_method": "fp8", "weight_block_size": [8, 16]})";
  for (const char* dtype : {"F8_E4M3", "F8_E5M2"}) {
    const auto value = [&](unsigned code) {
      const auto bits = static_cast<std::uint8_t>(code);
      return std::string_view(dtype) == "F8_E4M3" ? f8_e4m3_to_f32(bits) : f8_e5m2_to_f32(bits);
    };
    const std::string codes = random_bytes(kRows * kCols, 3, 120);  // finite and not negative
    for (const Sharing& sharing : {Sharing{{}, kRows, kCols}, Sharing{{1}, kRows, kCols}, Sharing{{1, 1}, kRows, kCols},
                                   Sharing{{kRows}, 1, kCols}, Sharing{{kRows, 1}, 1, kCols}, Sharing{{5, 4}, 8, 16}}) {
      std::size_t count = 1;
      for (const auto extent : sharing.shape) count *= extent;
      const std::vector<float> scales = test::normal_values(count, 4);
      const std::size_t in_row = (kCols + sharing.cols - 1) / sharing.cols;
      std::vector<float> stored(kRows * kCols), turned(kRows * kCols);
      for (std::size_t r = 0; r < kRows; ++r)
        for (std::size_t c = 0; c < kCols; ++c) {
          const float scale = scales[r / sharing.rows * in_row + c / sharing.cols];
          stored[r * kCols + c] = turned[c * kRows + r] = value(byte_at(codes, r * kCols + c)) * scale;
        }
      for (const char* suffix : {"_scale_inv", "_scale"}) {
        SCOPED_TRACE(testing::Message() << dtype << suffix << " of rank " << sharing.shape.size() << ", " << count);
        write({{"odd", "U8", {1}, "#"},
               {"w.weight", dtype, {kRows, kCols}, codes},
               test::f32_tensor(std::string("w.weight") + suffix, sharing.shape, scales)},
              config);
        EXPECT_TRUE(same_bits(all_rows(*matrix(whole_matrix("w.weight", kRows, kCols))), stored));
        EXPECT_TRUE(same_bits(all_rows(*matrix(whole_matrix("w.weight", kCols, kRows, true))), turned));
      }
    }
  }
}

TEST_F(Narrow, Fp8StacksHaveScalesForEachSlice) {
  const std::string codes = random_bytes(2 * 3 * 4, 5, 120);
  for (const auto& shape : std::vector<std::vector<std::uint64_t>>{{2}, {2, 1, 1}, {2, 3}, {2, 3, 1}}) {
    std::size_t count = 1;
    for (const auto extent : shape) count *= extent;
    const std::vector<float> scales = test::normal_values(count, 6);
    write({{"w", "F8_E4M3", {2, 3, 4}, codes}, test::f32_tensor("w_scale", shape, scales)});
    std::vector<float> expected;
    for (std::size_t i = 12; i < 24; ++i)
      expected.push_back(f8_e4m3_to_f32(static_cast<std::uint8_t>(codes[i])) * scales[i * count / 24]);
    EXPECT_TRUE(same_bits(all_rows(*matrix(stack("w", 2, 1, 3, 4, false))), expected)) << shape.size();
  }
}

TEST_F(Narrow, Fp8ScalesMayBeOtherFloats) {
  const std::vector<float> scales{0.5f, 4.0f};
  const std::vector<float> expected{0.5f, -0.5f, 4.0f, -4.0f};
  const std::string codes = "\x38\xB8\x38\xB8";  // 1, -1
  for (const TinyTensor& scale :
       {test::bf16_tensor("w_scale", {2, 1}, scales), test::f16_tensor("w_scale", {2, 1}, scales),
        TinyTensor{"w_scale", "F8_E8M0", {2, 1}, "\x7E\x81"}}) {
    write({{"w", "F8_E4M3", {2, 2}, codes}, scale});
    EXPECT_TRUE(same_bits(all_rows(*matrix(whole_matrix("w", 2, 2))), expected)) << scale.dtype;
  }
}

TEST_F(Narrow, Fp8ThatDoesNotFitIsRefused) {
  const TinyTensor codes{"w", "F8_E4M3", {300, 2}, std::string(600, '\0')};
  const Stored place = whole_matrix("w", 300, 2);
  const auto scales = [](std::vector<std::uint64_t> shape, std::size_t count) {
    return test::f32_tensor("w_scale_inv", std::move(shape), std::vector<float>(count, 1.0f));
  };
  write({codes});
  EXPECT_TRUE(refuses(place, "'w'", "F8_E4M3", "'w_scale_inv' or 'w_scale'"));
  write({codes, scales({3, 1}, 3)});
  EXPECT_EQ(matrix(place)->rows(), 300u);
  EXPECT_TRUE(refuses(whole_matrix("w", 300, 3), "'w'", "(300, 3)", "(300, 2)"));
  write({codes, scales({2, 1}, 2)});
  EXPECT_TRUE(refuses(place, "'w_scale_inv'", "300 for each row", "(3, 1) for blocks of (128, 128)", "(2, 1)"));
  write({codes, scales({1, 3}, 3)});
  EXPECT_TRUE(refuses(place, "'w_scale_inv'", "(1, 3)"));
  write({codes, scales({0}, 0)});
  EXPECT_TRUE(refuses(place, "'w_scale_inv'", "(0)"));
  write({codes, {"w_scale", "I32", {1}, std::string(4, '\0')}});
  EXPECT_TRUE(refuses(place, "'w_scale'", "expected F32, F16, BF16 or F8_E8M0", "I32"));
  write({{"w", "F8_E4M3", {2, 3, 4}, std::string(24, '\0')}, scales({3}, 3)});
  EXPECT_TRUE(refuses(stack("w", 2, 0, 3, 4, false), "'w_scale_inv'", "in each of 2 slices", "(3)"));
}

TEST_F(Narrow, VectorsAreNotReadFrom8BitFloats) {
  write({{"v", "F8_E4M3", {3}, "abc"}, test::f32_tensor("v_scale", {1}, std::vector<float>{1.0f})});
  EXPECT_TRUE(throws_with<FormatError>([&] { make_float_provider(checkpoint_)->vector(whole_vector("v", 3)); }, "'v'",
                                       "F8_E4M3"));
}

TEST_F(Narrow, PartsAreKnownByTheTensorThatTheyBelongTo) {
  const std::vector<float> one{1.0f};
  write({{"e_blocks", "U8", {1, 1, 16}, std::string(16, '\0')},
         {"e_scales", "U8", {1, 1}, "\x7F"},
         {"p.weight", "F8_E4M3", {1, 1}, "\x38"},
         test::f32_tensor("p.weight_scale", {1}, one),
         test::f32_tensor("p.input_scale", {1}, one),
         test::f32_tensor("q.weight", {1, 1}, one),
         test::f32_tensor("q.input_scale", {1}, one),
         test::f32_tensor("f", {1, 1}, one),
         {"f_blocks", "U8", {1}, "#"}});
  const NarrowTensors tensors(*checkpoint_);
  const auto is = [&](const std::string& name, NarrowPart::Kind kind, const std::string& tensor) {
    const auto part = tensors.part_of(name);
    return part && part->kind == kind && part->tensor == tensor;
  };
  EXPECT_TRUE(is("e_blocks", NarrowPart::Kind::kCodes, "e"));
  EXPECT_TRUE(is("e_scales", NarrowPart::Kind::kScales, "e"));
  EXPECT_TRUE(is("p.weight", NarrowPart::Kind::kCodes, "p.weight"));
  EXPECT_TRUE(is("p.weight_scale", NarrowPart::Kind::kScales, "p.weight"));
  EXPECT_TRUE(is("p.input_scale", NarrowPart::Kind::kActivationScale, "p.weight"));
  for (const char* other : {"q.weight", "q.input_scale", "f", "f_blocks", "absent"})
    EXPECT_FALSE(tensors.part_of(other)) << other;
  EXPECT_TRUE(test::near(tensors.find("e")->bits_per_weight(), 4.25, {.abs = 0.0, .rel = 0.0}));
  EXPECT_EQ(tensors.find("e")->storage(), "mxfp4");
  EXPECT_EQ(tensors.find("p.weight")->storage(), "fp8 e4m3");
  EXPECT_FALSE(tensors.find("f"));
  EXPECT_EQ(tensors.place_of(*tensors.find("e")).cols, 32u);
}

}  // namespace
}  // namespace nibble::model

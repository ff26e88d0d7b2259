#include "export/coreml/weight_constant.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "core/error.h"
#include "core/matrix/dtype.h"
#include "export/coreml/constant_pool.h"
#include "export/coreml/constant_source.h"
#include "export/coreml/graph.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"
#include "tests/support/tiny_checkpoint.h"

namespace nibble::coreml {
namespace {

using quant::Coding;
using quant::QuantizedTensor;
using quant::TensorSpec;
using test::TempDir;

std::vector<std::uint8_t> some_codes(std::size_t count, unsigned bits) {
  std::vector<std::uint8_t> codes(count);
  for (std::size_t i = 0; i < count; ++i)
    codes[i] = static_cast<std::uint8_t>((i * i * 7 + i * 3 + i / 5) % (1u << bits));
  return codes;
}

std::vector<float> halves(std::size_t count, std::uint64_t seed) {
  std::vector<float> values = test::normal_values(count, seed, 0.1);
  for (float& value : values) value = round_to_f16(value);
  return values;
}

QuantizedTensor palette_tensor(const TensorSpec& spec, DType dtype, bool scales) {
  std::vector<float> palette;
  for (std::size_t p = 0; p < spec.palettes(); ++p)
    for (std::size_t e = 0; e < spec.entries(); ++e)
      for (std::size_t j = 0; j < spec.cluster_dim; ++j) {
        const double value = (static_cast<double>(e) - 0.4 * static_cast<double>(spec.entries())) * 0.013 +
                             0.001 * static_cast<double>(p) - 0.0007 * static_cast<double>(j);
        palette.push_back(dtype == DType::kF32 ? static_cast<float>(value) : round_to_f16(static_cast<float>(value)));
      }
  return quant::make_palette_tensor("w", spec, some_codes(spec.rows * spec.codes_per_row(), spec.bits), palette, dtype,
                                    scales ? halves(spec.rows, 3) : std::vector<float>{});
}

QuantizedTensor block_tensor(const TensorSpec& spec, bool zeros) {
  const std::size_t blocks = spec.rows * spec.blocks();
  return quant::make_block_tensor("w", spec, some_codes(spec.rows * spec.cols, spec.bits), halves(blocks, 4),
                                  zeros ? some_codes(blocks, spec.bits) : std::vector<std::uint8_t>{});
}

struct Outcome {
  Constant constant;
  std::vector<float> decoded, expected;
  Rounding rounding;
  std::uint64_t bytes = 0;
};

// Written and read back from disk.
Outcome round_trip(QuantizedTensor tensor, Rows rows) {
  const auto shared = std::make_shared<const QuantizedTensor>(std::move(tensor));
  ConstantPool pool;
  Outcome out{plan_coded_weight(pool.blobs(), shared, rows, pool.rounding()), {}, {}, {}, 0};
  const TempDir dir;
  pool.blobs().write(dir / "weight.bin", {});
  const BlobFile file(dir / "weight.bin");
  Operation operation{out.constant.operation, {}, {}, {}};
  for (const auto& [name, value] : out.constant.operands) operation.inputs[name] = {value};
  const auto source = make_constant_source(operation, file);
  out.decoded.resize(source->rows() * source->cols());
  source->decode_rows(0, source->rows(), out.decoded.data());
  out.expected.resize(rows.count() * shared->cols());
  shared->decode_rows(rows.begin, rows.end, out.expected.data());
  out.rounding = *pool.rounding();
  out.bytes = pool.blobs().file_bytes();
  return out;
}

std::vector<std::uint64_t> shape_of(const Outcome& out, const char* operand) {
  return out.constant.operands.at(operand).type.shape;
}
DataType type_of(const Outcome& out, const char* operand) { return out.constant.operands.at(operand).type.type; }

TEST(CoreMlWeight, KeepsPalettesOfEveryWidthAndGroup) {
  for (const unsigned bits : {1u, 2u, 3u, 4u, 6u, 8u})
    for (const std::size_t group : {0u, 1u, 3u, 4u})
      for (const std::size_t cols : {24u, 27u}) {
        SCOPED_TRACE(testing::Message() << bits << " bits, group " << group << ", " << cols << " columns");
        const Outcome out =
            round_trip(palette_tensor({Coding::kPalette, 12, cols, bits, group}, DType::kF16, false), {0, 12});
        EXPECT_TRUE(test::same_bits(out.decoded, out.expected));
        EXPECT_EQ(out.rounding.values, 0u);
        const std::size_t tables = group == 0 ? 1 : 12 / group;
        EXPECT_EQ(shape_of(out, "lut"), (std::vector<std::uint64_t>{tables, 1, std::uint64_t{1} << bits, 1}));
        EXPECT_EQ(type_of(out, "indices"), unsigned_type(bits));
      }
}

// Groups that do not divide the rows, or the part asked for, get their tables repeated for smaller ones.
TEST(CoreMlWeight, CutsGroupsOfRowsWhereTheyDoNotDivide) {
  const TensorSpec spec{Coding::kPalette, 14, 16, 4, 4};
  const Outcome whole = round_trip(palette_tensor(spec, DType::kF16, false), {0, 14});
  EXPECT_TRUE(test::same_bits(whole.decoded, whole.expected));
  EXPECT_EQ(shape_of(whole, "lut")[0], 7u);  // gcd(4, 14) = 2 rows each
  const Outcome part = round_trip(palette_tensor(spec, DType::kF16, false), {4, 12});
  EXPECT_TRUE(test::same_bits(part.decoded, part.expected));
  EXPECT_EQ(shape_of(part, "lut")[0], 2u);
  const Outcome odd = round_trip(palette_tensor(spec, DType::kF16, false), {3, 11});
  EXPECT_TRUE(test::same_bits(odd.decoded, odd.expected));
  EXPECT_EQ(shape_of(odd, "lut")[0], 8u);
}

TEST(CoreMlWeight, KeepsVectorPalettes) {
  const TensorSpec spec{
      .coding = Coding::kPalette, .rows = 6, .cols = 16, .bits = 4, .group_size = 3, .cluster_dim = 2};
  const Outcome out = round_trip(palette_tensor(spec, DType::kF16, false), {0, 6});
  EXPECT_TRUE(test::same_bits(out.decoded, out.expected));
  EXPECT_EQ(shape_of(out, "lut"), (std::vector<std::uint64_t>{2, 1, 16, 2}));
  EXPECT_EQ(shape_of(out, "indices"), (std::vector<std::uint64_t>{6, 8}));
  EXPECT_TRUE(out.constant.operands.contains("vector_axis"));
}

// A table of a row is palette times scale, rounded once: what the plain loop says, bit for bit.
TEST(CoreMlWeight, FoldsRowScalesIntoATableOfEachRow) {
  for (const std::size_t group : {0u, 4u}) {
    const Outcome out = round_trip(palette_tensor({Coding::kPalette, 8, 20, 3, group}, DType::kF16, true), {0, 8});
    std::vector<float> rounded = out.expected;
    for (float& value : rounded) value = round_to_f16(value);
    EXPECT_TRUE(test::same_bits(out.decoded, rounded));
    EXPECT_EQ(shape_of(out, "lut"), (std::vector<std::uint64_t>{8, 1, 8, 1}));
    EXPECT_GT(out.rounding.values, 0u);
    EXPECT_GT(out.rounding.largest, 0.0);
  }
  const Outcome single = round_trip(palette_tensor({Coding::kPalette, 8, 20, 3, 0}, DType::kF32, false), {0, 8});
  EXPECT_EQ(single.rounding.values, 8u);        // every entry of the one palette
  EXPECT_LT(single.rounding.largest, 0x1p-13);  // half a unit of values below 0.25
}

TEST(CoreMlWeight, KeepsBlocksOfEveryWidth) {
  for (const unsigned bits : {2u, 3u, 4u, 5u, 6u, 7u, 8u})
    for (const bool zeros : {false, true})
      for (const auto& [cols, group] :
           {std::pair<std::size_t, std::size_t>{32, 16}, {48, 16}, {21, 7}, {21, 0}, {8, 32}}) {
        SCOPED_TRACE(testing::Message() << bits << " bits, " << cols << " columns, group " << group << zeros);
        const Outcome out = round_trip(block_tensor({Coding::kBlocks, 5, cols, bits, group}, zeros), {0, 5});
        EXPECT_TRUE(test::all_near(out.decoded, out.expected, {}));  // a zero may have either sign
        const std::size_t blocks = group == 0 || group > cols ? 1 : cols / group;
        EXPECT_EQ(shape_of(out, "scale"), (std::vector<std::uint64_t>{5, blocks}));
        const DataType expected =
            zeros ? (bits <= 4 ? DataType::kUInt4 : DataType::kUInt8) : (bits <= 4 ? DataType::kInt4 : DataType::kInt8);
        EXPECT_EQ(type_of(out, "data"), expected);
        EXPECT_EQ(out.constant.operands.contains("offset"), zeros);
        const Outcome part = round_trip(block_tensor({Coding::kBlocks, 5, cols, bits, group}, zeros), {1, 4});
        EXPECT_TRUE(test::all_near(part.decoded, part.expected, {}));
      }
}

TEST(CoreMlWeight, RefusesWhatHasNoPlace) {
  EXPECT_EQ(why_not_held({Coding::kBlocks, 4, 32, 4, 16}, false), "");
  EXPECT_NE(why_not_held({Coding::kBlocks, 4, 40, 4, 16}, false).find("do not divide rows of 40"), std::string::npos);
  EXPECT_NE(why_not_held({Coding::kPalette, 4, 40, 4, 0}, true).find("outliers"), std::string::npos);
  for (const std::size_t block : {32u, 0u}) {
    const TensorSpec blocks{.coding = Coding::kBlockPalette, .rows = 4, .cols = 32, .bits = 4, .group_size = block};
    EXPECT_NE(why_not_held(blocks, false).find("blocks of inputs"), std::string::npos);
  }
  const TensorSpec windows{.coding = Coding::kPalette, .rows = 4, .cols = 32, .bits = 2, .window_bits = 6};
  EXPECT_NE(why_not_held(windows, false).find("windows"), std::string::npos);
  for (unsigned bits = 1; bits <= 8; ++bits) {
    EXPECT_EQ(why_not_held({Coding::kPalette, 4, 32, bits, 0}, false) == "", bits != 5 && bits != 7) << bits;
  }
  ConstantPool pool;
  const auto tensor = std::make_shared<const QuantizedTensor>(block_tensor({Coding::kBlocks, 2, 40, 4, 16}, false));
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] {
        plan_coded_weight(pool.blobs(), tensor, {0, 2}, pool.rounding());
      },
      "divide"));
}

class Fixed final : public WeightSource {
 public:
  explicit Fixed(std::vector<float> values) : values_(std::move(values)) {}
  std::size_t rows() const override { return values_.size() / 4; }
  std::size_t cols() const override { return 4; }
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    std::copy(values_.begin() + static_cast<std::ptrdiff_t>(4 * begin),
              values_.begin() + static_cast<std::ptrdiff_t>(4 * end), destination);
  }

 private:
  std::vector<float> values_;
};

TEST(CoreMlWeight, RoundsFloatsOnceAndCountsThem) {
  const TempDir dir;
  ConstantPool pool;
  const auto source = std::make_shared<Fixed>(std::vector<float>{1.0f, 0.1f, -2.5f, 1e-9f, 3.0f, 0.3f, 7.0f, 65504.0f});
  const Constant constant = plan_float_weight(pool.blobs(), source, {0, 2}, "w", pool.rounding());
  pool.blobs().write(dir / "w", {});
  EXPECT_EQ(pool.rounding()->values, 3u);
  const BlobFile file(dir / "w");
  std::vector<float> expected(8);
  source->decode_rows(0, 2, expected.data());
  for (float& value : expected) value = round_to_f16(value);
  EXPECT_TRUE(test::same_bits(constant_values(constant.operands.at("val"), file), expected));
  ConstantPool other;
  static_cast<void>(plan_float_weight(other.blobs(), std::make_shared<Fixed>(std::vector<float>{1, 2, 3, 70000}),
                                      {0, 1}, "big", other.rounding()));
  EXPECT_TRUE(test::throws_with<NumericalError>([&] { other.blobs().write(dir / "x", {}); }, "big", "70000"));
}

TEST(CoreMlWeight, TellsWhatIsTooLargeFromWhatIsNoNumber) {
  const TempDir dir;
  for (const auto& [value, what] : {std::pair(std::numeric_limits<float>::quiet_NaN(), "nan at index 1 is no finite"),
                                    {7e4f, "70000 at index 1 is too large for float16"}}) {
    const std::vector<float> values{1.0f, value};
    ConstantPool pool;
    EXPECT_TRUE(test::throws_with<NumericalError>([&] { pool.halves({2}, values, "gain"); }, what));
    static_cast<void>(plan_float_weight(pool.blobs(), std::make_shared<Fixed>(std::vector<float>{1, 2, 3, value}),
                                        {0, 1}, "w", pool.rounding()));
    const std::string of_weight = std::string(what).erase(std::string(what).find(" at index 1"), 11);
    EXPECT_TRUE(test::throws_with<NumericalError>([&] { pool.blobs().write(dir / "x", {}); }, "w: " + of_weight));
  }
}

}  // namespace
}  // namespace nibble::coreml

#include "quant/tuning/tunable_tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/dtype.h"
#include "core/random.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

std::vector<std::uint8_t> random_codes(Random& random, std::size_t count, unsigned bits) {
  std::vector<std::uint8_t> codes(count);
  for (auto& code : codes) code = static_cast<std::uint8_t>(random.below(std::uint64_t{1} << bits));
  return codes;
}

std::vector<float> random_halves(Random& random, std::size_t count) {
  std::vector<float> values(count);
  for (float& value : values) value = round_to_f16(static_cast<float>(random.normal()));
  return values;
}

// Palettes of quarters, ascending by at least 1/4: a change by 1/16 keeps the order, and is exact in float16.
QuantizedTensor palette_example(Random& random, std::size_t rows, std::size_t group, std::size_t dim, bool scaled,
                                DType dtype = DType::kF16) {
  const TensorSpec spec{.rows = rows, .cols = 12, .bits = 3, .group_size = group, .cluster_dim = dim};
  std::vector<float> palette;
  for (std::size_t i = 0; i < spec.palettes() * spec.entries() * dim; ++i)
    palette.push_back(0.25f * static_cast<float>(i % (spec.entries() * dim)) - 1.0f);
  return make_palette_tensor("w", spec, random_codes(random, rows * spec.codes_per_row(), 3), palette, dtype,
                             scaled ? random_halves(random, rows) : std::vector<float>());
}

// Entries in no order, codes that overlap down the rows.
QuantizedTensor windowed_example(Random& random, std::size_t rows) {
  const TensorSpec spec{.rows = rows, .cols = 12, .bits = 2, .window_bits = 5};
  Matrix<std::uint16_t> codes(rows, spec.cols);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < spec.cols; ++j)
      codes(i, j) = static_cast<std::uint16_t>(
          i == 0 ? random.below(32) : (random.below(4) << 3 | static_cast<std::uint64_t>(codes(i - 1, j)) >> 2));
  std::vector<float> palette;
  for (std::size_t q = 0; q < spec.entries(); ++q) palette.push_back(0.25f * static_cast<float>(7 * q % 32) - 4.0f);
  return make_windowed_tensor("w", spec, codes, palette, DType::kF16, random_halves(random, rows));
}

QuantizedTensor block_example(Random& random, std::size_t rows, std::size_t block, bool zeros) {
  const TensorSpec spec{
      .coding = Coding::kBlocks, .rows = rows, .cols = 37, .bits = 4, .group_size = block, .cluster_dim = 1};
  return make_block_tensor("w", spec, random_codes(random, rows * 37, 4), random_halves(random, rows * spec.blocks()),
                           zeros ? random_codes(random, rows * spec.blocks(), 4) : std::vector<std::uint8_t>());
}

QuantizedTensor block_palette_example(Random& random, std::size_t rows, BlockPalette palette, ScaleType scale) {
  const bool learned = palette == BlockPalette::kLearned;
  const TensorSpec spec{.coding = Coding::kBlockPalette,
                        .rows = rows,
                        .cols = 37,
                        .bits = learned ? 3u : 4u,
                        .group_size = 16,
                        .block_palette = palette,
                        .scale_type = scale};
  std::vector<float> entries, scales = random_halves(random, rows * spec.blocks());
  for (std::size_t i = 0; learned && i < spec.entries(); ++i) entries.push_back(0.25f * static_cast<float>(i) - 1.0f);
  if (scale != ScaleType::kFloat16)
    for (float& value : scales) value = round_scale(std::abs(value), scale);
  return make_block_palette_tensor("w", spec, random_codes(random, rows * 37, spec.bits), entries, scales,
                                   scale == ScaleType::kE4M3 ? 0.37f : 1.0f);
}

double inner_product(const QuantizedTensor& tensor, const Matrix<float>& g) {
  Matrix<float> w(tensor.rows(), tensor.cols());
  tensor.decode_rows(0, w.rows(), w.data());
  double sum = 0.0;
  for (std::size_t i = 0; i < w.size(); ++i)
    sum += static_cast<double>(w.values()[i]) * static_cast<double>(g.values()[i]);
  return sum;
}

// dL/dvalue of L = Σ G_ij ŵ_ij, which is linear in each value, by differences.
std::vector<double> differences(const QuantizedTensor& tensor, const Matrix<float>& g) {
  std::vector<double> gradient;
  const CodeValues values = code_values(tensor);
  const auto change = [&](auto member, std::size_t i, float by) {
    CodeValues changed = values;
    (changed.*member)[i] = round_to_f16((changed.*member)[i] + by);
    const double step = static_cast<double>((changed.*member)[i]) - static_cast<double>((values.*member)[i]);
    return std::pair(inner_product(with_code_values(tensor, changed), g), step);
  };
  for (const auto member : {&CodeValues::palette, &CodeValues::scale})
    for (std::size_t i = 0; i < (values.*member).size(); ++i) {
      const auto [up, step_up] = change(member, i, 0x1p-4f);
      const auto [down, step_down] = change(member, i, -0x1p-4f);
      gradient.push_back((up - down) / (step_up - step_down));
    }
  return gradient;
}

// Trained scales would be no multiples of a step any more.
TEST(TunableTensor, LeavesScalesThatShareAStep) {
  Random random(23);
  TensorSpec spec{.coding = Coding::kBlocks, .rows = 3, .cols = 32, .bits = 4, .group_size = 16};
  const auto tensor = [&] {
    return make_block_tensor("w", spec, random_codes(random, 96, 4), random_halves(random, 6), {});
  };
  const Tunables scales{.palettes = true, .scales = true};
  EXPECT_EQ(TunableTensor(tensor(), scales).values().size(), 6u);
  spec.super_block = 32;
  EXPECT_EQ(TunableTensor(tensor(), scales).values().size(), 0u);
}

TEST(TunableTensor, GradientsAreThoseOfDifferences) {
  Random random(21);
  std::vector<QuantizedTensor> examples;
  examples.push_back(palette_example(random, 150, 0, 1, true));  // rows of several tiles share a palette
  examples.push_back(palette_example(random, 150, 1, 1, false));
  examples.push_back(palette_example(random, 150, 60, 1, true));  // groups across tiles
  examples.push_back(palette_example(random, 5, 2, 4, false));
  examples.push_back(palette_example(random, 9, 0, 2, false, DType::kF32));
  examples.push_back(windowed_example(random, 150));
  examples.push_back(block_palette_example(random, 70, BlockPalette::kLearned, ScaleType::kFloat16));
  examples.push_back(block_palette_example(random, 70, BlockPalette::kLearned, ScaleType::kE4M3));
  examples.push_back(block_palette_example(random, 5, BlockPalette::kNf4, ScaleType::kFloat16));
  examples.push_back(block_example(random, 70, 16, false));
  examples.push_back(block_example(random, 3, 0, true));
  for (const QuantizedTensor& tensor : examples) {
    Matrix<float> g(tensor.rows(), tensor.cols());
    for (float& value : g.values()) value = static_cast<float>(random.normal());
    TunableTensor tunable(with_code_values(tensor, code_values(tensor)), {});
    std::vector<double> gradient(tunable.size());
    tunable.gradient(tensor, g, gradient);
    // Weights are products rounded to float (2^-24), steps about 2^-3, some hundred terms.
    EXPECT_TRUE(test::all_near(gradient, differences(tensor, g), {.abs = 1e-3, .rel = 1e-4}));
    std::vector<double> again(tunable.size());
    set_thread_count(1);
    tunable.gradient(tensor, g, again);
    set_thread_count(0);
    EXPECT_TRUE(test::same_bits(again, gradient));
  }
}

TEST(TunableTensor, StartsAsWhatItWasMadeOfAndKeepsCodesAndOutliers) {
  Random random(22);
  const QuantizedTensor dense = palette_example(random, 4, 0, 1, false);
  Matrix<float> w(4, 12);
  for (float& value : w.values()) value = round_to_f16(static_cast<float>(random.normal()));
  const std::vector<std::int32_t> rows{0, 1, 1, 1, 2}, columns{3, 7};
  const QuantizedTensor tensor = with_outliers(dense, w, rows, columns);
  TunableTensor tunable(with_code_values(tensor, code_values(tensor)), {});
  const auto parts_equal = [&](std::string_view suffix) {
    const auto rounded = tunable.rounded();
    const auto *a = tensor.find(suffix), *b = rounded->find(suffix);
    return std::equal(a->bytes.begin(), a->bytes.end(), b->bytes.begin(), b->bytes.end());
  };
  for (const TensorPart& part : tensor.parts()) EXPECT_TRUE(parts_equal(part.suffix)) << part.suffix;
  for (float& value : tunable.values()) value += 0.5f;
  EXPECT_FALSE(parts_equal("palette"));
  for (const char* kept : {"codes", "outlier_rows", "outlier_columns", "outlier_values"})
    EXPECT_TRUE(parts_equal(kept)) << kept;
}

TEST(TunableTensor, RoundsToTheTypesOfTheTensorAndKeepsPalettesAscending) {
  Random random(23);
  for (const DType dtype : {DType::kF16, DType::kI8}) {
    std::vector<float> palette{-127.0f, -3.0f, 0.0f, 1.0f, 2.0f, 3.0f, 4.0f, 90.0f};
    const TensorSpec spec{.rows = 2, .cols = 4, .bits = 3};
    TunableTensor tunable(
        make_palette_tensor("w", spec, random_codes(random, 8, 3), palette, dtype, random_halves(random, 2)), {});
    tunable.values()[2] = 1.7f;  // beyond the next entry
    tunable.values()[8] = 0.1f;  // a scale, no float16
    const auto rounded = tunable.rounded();
    const CodeValues values = code_values(*rounded);
    EXPECT_TRUE(std::is_sorted(values.palette.begin(), values.palette.end()));
    EXPECT_EQ(values.palette[2], values.palette[3]);
    EXPECT_EQ(values.palette[2], dtype == DType::kF16 ? round_to_f16(1.7f) : 2.0f);
    EXPECT_EQ(values.scale[0], round_to_f16(0.1f));
  }
}

TEST(TunableTensor, FreesOnlyWhatIsAskedFor) {
  Random random(24);
  const auto size_of = [&](const Tunables& which) {
    return TunableTensor(palette_example(random, 5, 0, 1, true), which).size();
  };
  EXPECT_EQ(size_of({.palettes = true, .scales = true}), 13u);
  EXPECT_EQ(size_of({.palettes = true, .scales = false}), 8u);
  EXPECT_EQ(size_of({.palettes = false, .scales = true}), 5u);
  TunableTensor scales(palette_example(random, 5, 0, 1, true), {.palettes = false, .scales = true});
  Matrix<float> g(5, 12);
  std::fill(g.values().begin(), g.values().end(), 1.0f);
  std::vector<double> gradient(5);
  EXPECT_NO_THROW(scales.gradient(*scales.rounded(), g, gradient));
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { scales.gradient(*scales.rounded(), g.view().rows_slice(0, 4), gradient); }, "expected a gradient (5, 12)"));
}

TEST(TunableTensor, RefusesValuesThatTheTypeCannotHold) {
  Random random(25);
  TunableTensor tunable(palette_example(random, 5, 0, 1, true), {});
  tunable.values()[7] = 1e6f;
  EXPECT_TRUE(test::throws_with<NumericalError>([&] { (void)tunable.rounded(); }, "beyond"));
  tunable.values()[7] = 2.0f;
  tunable.values()[8] = 1e6f;
  EXPECT_TRUE(test::throws_with<NumericalError>([&] { (void)tunable.rounded(); }, "too large"));
}

// Positions after one gradient and one step, and the codes nearest to them, by plain loops.
void expect_codes_to_move(QuantizedTensor start, Random& random) {
  const TensorSpec spec = start.spec();
  const std::size_t rows = spec.rows, cols = spec.cols;
  Matrix<std::uint16_t> before(rows, cols), after(rows, cols);
  start.read_codes(0, before);
  const CodeValues values = code_values(start);
  const std::vector<TensorPart> parts = start.parts();
  const std::size_t per_row = values.scale.size() / rows;
  Matrix<float> g(rows, cols);
  for (float& value : g.values()) value = static_cast<float>(random.normal());
  g(0, 0) = 0.0f;  // says nothing: stays
  TunableTensor tunable(std::move(start), {.palettes = false, .scales = false, .codes = true});
  EXPECT_EQ(tunable.size(), 0u);
  ASSERT_EQ(tunable.positions().size(), rows * cols);
  for (const float step : {0.375f, 0.375f}) {  // 0.75 in all: the second crosses the middle
    tunable.gradient(*tunable.rounded(), g, {});
    tunable.move_codes(step);
  }
  const auto moved = tunable.rounded();
  moved->read_codes(0, after);
  std::size_t changed = 0;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) {
      float slope = g(i, j);
      if (per_row == 1) slope *= values.scale[i];
      if (per_row > 1) slope *= values.scale[i * per_row + j / spec.group_size];
      float position = static_cast<float>(before(i, j)) - (slope > 0 ? 0.75f : slope < 0 ? -0.75f : 0.0f);
      position = std::min(std::max(position, 0.0f), static_cast<float>((1U << spec.bits) - 1));
      EXPECT_EQ(tunable.positions()[i * cols + j], position);
      EXPECT_EQ(after(i, j), static_cast<std::uint16_t>(std::floor(position + 0.5f)));
      if (after(i, j) != before(i, j)) ++changed;
    }
  EXPECT_GT(changed, rows * cols / 2);
  for (const TensorPart& part : parts) {
    if (part.suffix == "codes") continue;
    const TensorPart* same = moved->find(part.suffix);
    ASSERT_NE(same, nullptr) << part.suffix;
    EXPECT_TRUE(std::equal(part.bytes.begin(), part.bytes.end(), same->bytes.begin(), same->bytes.end()))
        << part.suffix;
  }
}

TEST(TunableTensor, CodesMoveAgainstTheirSlopesAndStayInRange) {
  Random random(25);
  expect_codes_to_move(palette_example(random, 150, 0, 1, true), random);
  expect_codes_to_move(palette_example(random, 70, 1, 1, false), random);
  expect_codes_to_move(palette_example(random, 150, 60, 1, true), random);
  expect_codes_to_move(block_example(random, 70, 16, true), random);
  expect_codes_to_move(block_example(random, 70, 16, false), random);
  expect_codes_to_move(block_example(random, 3, 0, false), random);
}

TEST(TunableTensor, CodesComeBackWithTheirPositions) {
  Random random(26);
  TunableTensor tunable(palette_example(random, 9, 0, 1, true), {.codes = true});
  const std::vector<float> start(tunable.positions().begin(), tunable.positions().end());
  Matrix<float> before(9, 12), after(9, 12), g(9, 12);
  tunable.rounded()->decode_rows(0, 9, before.data());
  for (float& value : g.values()) value = static_cast<float>(random.normal());
  std::vector<double> gradient(tunable.size());
  tunable.gradient(*tunable.rounded(), g, gradient);
  tunable.move_codes(1.0f);
  tunable.rounded()->decode_rows(0, 9, after.data());
  EXPECT_NE(before.values()[5], after.values()[5]);
  tunable.set_positions(start);
  tunable.rounded()->decode_rows(0, 9, after.data());
  EXPECT_TRUE(std::equal(before.values().begin(), before.values().end(), after.values().begin()));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { tunable.set_positions({}); }, "expected 108 positions"));
}

TEST(TunableTensor, CodesOfVectorsWindowsAndBlockPalettesStay) {
  Random random(27);
  std::vector<QuantizedTensor> examples;
  examples.push_back(palette_example(random, 5, 2, 4, false));
  examples.push_back(windowed_example(random, 20));
  examples.push_back(block_palette_example(random, 5, BlockPalette::kNf4, ScaleType::kFloat16));
  for (QuantizedTensor& example : examples) {
    EXPECT_FALSE(TunableTensor::codes_can_move(example.spec()));
    EXPECT_TRUE(TunableTensor(std::move(example), {.codes = true}).positions().empty());
  }
}

}  // namespace
}  // namespace nibble::quant

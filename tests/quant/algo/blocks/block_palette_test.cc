#include "quant/algo/blocks/block_palette.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/dtype.h"
#include "core/random.h"
#include "quant/algo/solve/error_feedback.h"
#include "quant/algo/solve/hessian.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

Matrix<float> normal_weights(std::size_t rows, std::size_t cols, std::uint64_t seed) {
  Random random(seed);
  Matrix<float> w(rows, cols);
  for (float& value : w.values()) value = static_cast<float>(0.02 * random.normal());
  return w;
}

// Spread over a few orders of magnitude, as sensitivities are.
Matrix<float> spread_weights(std::size_t rows, std::size_t cols, std::uint64_t seed) {
  Random random(seed);
  Matrix<float> f(rows, cols);
  for (float& value : f.values()) value = static_cast<float>(std::exp(2.0 * random.normal()));
  return f;
}

Matrix<float> ones(std::size_t rows, std::size_t cols) {
  Matrix<float> f(rows, cols);
  std::fill(f.values().begin(), f.values().end(), 1.0f);
  return f;
}

// Σ f (w - s c)², each code the entry that loses least.
double loss_at(std::span<const float> w, std::span<const float> f, std::span<const float> palette, double scale) {
  double loss = 0.0;
  for (std::size_t j = 0; j < w.size(); ++j) {
    double least = std::numeric_limits<double>::infinity();
    for (const float entry : palette)
      least = std::min(least, std::pow(static_cast<double>(w[j]) - scale * static_cast<double>(entry), 2));
    loss += static_cast<double>(f[j]) * least;
  }
  return loss;
}

double stored_loss(std::span<const float> w, std::span<const float> f, const BlockPaletteRounding& r, std::size_t row,
                   std::size_t first, std::size_t block) {
  double loss = 0.0;
  for (std::size_t j = 0; j < w.size(); ++j) {
    const float value = r.palette[r.codes(row, first + j)] * (r.scales(row, block) * r.tensor_scale);
    loss += static_cast<double>(f[j]) * std::pow(static_cast<double>(w[j]) - static_cast<double>(value), 2);
  }
  return loss;
}

std::vector<BlockPaletteOptions> all_options(bool search) {
  std::vector<BlockPaletteOptions> all;
  for (const BlockPalette palette : kBlockPalettes)
    for (const ScaleType scale : kScaleTypes)
      for (const unsigned bits : {2u, 3u, 4u})
        if (palette == BlockPalette::kLearned || bits == 4)
          all.push_back({.bits = bits, .block = 16, .palette = palette, .scale = scale, .search = search});
  return all;
}

std::string text_of(const BlockPaletteOptions& options) {
  return fmt::format("{} {} bits, {} scales", block_palette_name(options.palette), options.bits,
                     scale_type_name(options.scale));
}

TEST(RoundBlockPalette, HasTheScalesOfTheRuleAndNearestCodes) {
  const Matrix<float> w = normal_weights(19, 37, 1);
  double largest = 0.0;
  for (const float value : w.values()) largest = std::max(largest, std::abs(static_cast<double>(value)));
  for (const BlockPaletteOptions& options : all_options(false)) {
    SCOPED_TRACE(text_of(options));
    const BlockPaletteRounding r = round_block_palette(w, {}, options);
    const auto fixed = fixed_palette(options.palette);
    // The entry of largest magnitude: 1 of NF4 and before a palette is learned, -127 of IQ4_NL, 6 of E2M1.
    const double main = fixed.empty() || options.palette == BlockPalette::kNf4 ? 1.0
                        : options.palette == BlockPalette::kFp4                ? 6.0
                                                                               : -127.0;
    if (options.scale == ScaleType::kE4M3) {
      EXPECT_TRUE(test::near(static_cast<double>(r.tensor_scale), largest / (std::abs(main) * 448.0),
                             {.rel = 2e-7}));  // two operations in float
    } else {
      EXPECT_EQ(r.tensor_scale, 1.0f);
    }
    double cost = 0.0;
    for (std::size_t i = 0; i < w.rows(); ++i)
      for (std::size_t b = 0; b < 3; ++b) {
        const std::size_t first = b * 16, count = std::min<std::size_t>(16, 37 - first);
        const auto block = w.row(i).subspan(first, count);
        float extreme = 0.0f;
        for (const float value : block)
          if (std::abs(value) > std::abs(extreme)) extreme = value;
        const float scale = r.scales(i, b);
        if (options.scale == ScaleType::kFloat16) {
          EXPECT_EQ(scale, round_to_f16(extreme / static_cast<float>(main)));
        } else if (options.scale == ScaleType::kE8M0) {
          const double exponent =
              std::floor(std::log2(std::abs(static_cast<double>(extreme)))) - std::floor(std::log2(std::abs(main)));
          EXPECT_EQ(static_cast<double>(scale), std::exp2(exponent));
        } else {
          const double ideal =
              std::abs(static_cast<double>(extreme)) / (std::abs(main) * static_cast<double>(r.tensor_scale));
          const auto below = static_cast<double>(round_scale(static_cast<float>(ideal * (1 - 1e-6)), options.scale)),
                     above = static_cast<double>(round_scale(static_cast<float>(ideal * (1 + 1e-6)), options.scale));
          EXPECT_TRUE(static_cast<double>(scale) == below || static_cast<double>(scale) == above) << scale;
        }
        const std::vector<float> f(count, 1.0f);
        const double step = static_cast<double>(scale) * static_cast<double>(r.tensor_scale);
        const double loss = stored_loss(block, f, r, i, first, b);
        EXPECT_LE(loss, loss_at(block, f, r.palette, step) + 1e-6 * loss) << "boundaries are rounded to float";
        cost += loss;
      }
    EXPECT_TRUE(test::near(r.cost, cost, {.rel = 1e-12}));  // sums of doubles in another order
    EXPECT_TRUE(std::is_sorted(r.palette.begin(), r.palette.end()));
  }
}

// Of the types that hold few scales the search looks at all within its range: none of them may lose less.
TEST(RoundBlockPalette, FindsTheBestScaleThatIsStorable) {
  for (const bool weighted : {false, true}) {
    const Matrix<float> w = normal_weights(18, 43, 2), f = weighted ? spread_weights(18, 43, 3) : ones(18, 43);
    for (BlockPaletteOptions options : all_options(true)) {
      if (options.scale == ScaleType::kFloat16) continue;
      SCOPED_TRACE(text_of(options) + (weighted ? ", weighted" : ""));
      const BlockPaletteRounding r = round_block_palette(w, weighted ? f.view() : MatrixView<const float>(), options);
      const float main = std::max(-r.palette.front(), r.palette.back());
      const double ratio = options.palette == BlockPalette::kFp4 ? 1.5 : 1.25;  // where 4 or 6 is the largest
      for (std::size_t i = 0; i < w.rows(); ++i)
        for (std::size_t b = 0; b < 3; ++b) {
          const std::size_t first = b * 16, count = std::min<std::size_t>(16, 43 - first);
          const auto block = w.row(i).subspan(first, count), g = f.row(i).subspan(first, count);
          double largest = 0.0;
          for (const float value : block) largest = std::max(largest, std::abs(static_cast<double>(value)));
          const double ideal = largest / static_cast<double>(main);
          double best = std::numeric_limits<double>::infinity();
          for (unsigned code = 0; code < (options.scale == ScaleType::kE8M0 ? 255u : 127u); ++code) {
            const double scale = static_cast<double>(scale_of_bits(static_cast<std::uint16_t>(code), options.scale)) *
                                 static_cast<double>(r.tensor_scale);
            if (scale >= 0.2 * ideal && scale <= ratio * ideal)
              best = std::min(best, loss_at(block, g, r.palette, scale));
          }
          EXPECT_LE(stored_loss(block, g, r, i, first, b), best * (1.0 + 1e-4)) << "sums of 16 floats compared";
        }
    }
  }
}

/// The least loss of any scale of either sign: codes change only where w / s is midway between entries, and between two
/// such scales the best one is known in closed form.
double exact_loss(std::span<const float> w, std::span<const float> f, std::span<const float> palette) {
  double best = std::numeric_limits<double>::infinity();
  for (const double sign : {1.0, -1.0}) {
    std::vector<double> turns{0.0};
    for (const float value : w)
      for (std::size_t c = 0; c + 1 < palette.size(); ++c) {
        const double bound = 0.5 * (static_cast<double>(palette[c]) + static_cast<double>(palette[c + 1]));
        const double turn = bound == 0.0 ? 0.0 : sign * static_cast<double>(value) / bound;
        if (turn > 0.0) turns.push_back(turn);
      }
    std::sort(turns.begin(), turns.end());
    turns.push_back(2.0 * turns.back());
    for (std::size_t t = 0; t + 1 < turns.size(); ++t) {
      const double scale = sign * 0.5 * (turns[t] + turns[t + 1]);
      double wq = 0.0, qq = 0.0, ww = 0.0;
      for (std::size_t j = 0; j < w.size(); ++j) {
        const auto x = static_cast<double>(w[j]);
        double q = 0.0, least = std::numeric_limits<double>::infinity();
        for (const float entry : palette) {
          const double distance = std::abs(x - scale * static_cast<double>(entry));
          if (distance < least) {
            least = distance;
            q = static_cast<double>(entry);
          }
        }
        wq += static_cast<double>(f[j]) * x * q;
        qq += static_cast<double>(f[j]) * q * q;
        ww += static_cast<double>(f[j]) * x * x;
      }
      best = std::min(best, qq > 0.0 ? ww - wq * wq / qq : ww);
    }
  }
  return best;
}

TEST(RoundBlockPalette, OfFloat16IsNearTheBestScaleThereIs) {
  for (const bool weighted : {false, true}) {
    const Matrix<float> w = normal_weights(17, 40, 4), f = weighted ? spread_weights(17, 40, 5) : ones(17, 40);
    for (BlockPaletteOptions options : all_options(true)) {
      if (options.scale != ScaleType::kFloat16) continue;
      SCOPED_TRACE(text_of(options) + (weighted ? ", weighted" : ""));
      const BlockPaletteRounding r = round_block_palette(w, weighted ? f.view() : MatrixView<const float>(), options);
      double found = 0.0, exact = 0.0;
      for (std::size_t i = 0; i < w.rows(); ++i)
        for (std::size_t b = 0; b < 3; ++b) {
          const std::size_t first = b * 16, count = std::min<std::size_t>(16, 40 - first);
          const auto block = w.row(i).subspan(first, count), g = f.row(i).subspan(first, count);
          found += stored_loss(block, g, r, i, first, b);
          exact += exact_loss(block, g, r.palette);
        }
      EXPECT_GE(found, exact * (1.0 - 1e-6));
      EXPECT_LE(found, exact * (weighted ? 1.06 : 1.03)) << "what a grid of scales can miss";
    }
  }
}

TEST(RoundBlockPalette, SearchNeverLosesMoreThanTheRule) {
  const Matrix<float> w = normal_weights(33, 70, 6), f = spread_weights(33, 70, 7);
  for (BlockPaletteOptions options : all_options(false)) {
    SCOPED_TRACE(text_of(options));
    const double ruled = round_block_palette(w, f, options).cost;
    options.search = true;
    EXPECT_LE(round_block_palette(w, f, options).cost, ruled * (1.0 + 1e-5)) << "sums of floats compared";
  }
}

TEST(RoundBlockPalette, LearnsTheBestPaletteForItsScalesAndNeverRises) {
  const Matrix<float> w = normal_weights(48, 64, 8), f = spread_weights(48, 64, 9);
  for (const ScaleType scale : kScaleTypes)
    for (const unsigned bits : {2u, 4u}) {
      BlockPaletteOptions options{.bits = bits, .block = 32, .scale = scale};
      SCOPED_TRACE(text_of(options));
      const BlockPaletteRounding ruled = round_block_palette(w, f, options);
      EXPECT_LT(ruled.optimality_gap, 1e-6);
      // No entry can move and make it better: the mean of the values of a code, weighed by f s², is its entry.
      for (std::size_t code = 0; code < ruled.palette.size(); ++code) {
        double sum = 0.0, weight = 0.0;
        for (std::size_t i = 0; i < w.rows(); ++i)
          for (std::size_t j = 0; j < w.cols(); ++j) {
            if (ruled.codes(i, j) != code) continue;
            const double s = static_cast<double>(ruled.scales(i, j / 32)) * static_cast<double>(ruled.tensor_scale);
            sum += static_cast<double>(f(i, j)) * s * static_cast<double>(w(i, j));
            weight += static_cast<double>(f(i, j)) * s * s;
          }
        EXPECT_TRUE(test::near(static_cast<double>(ruled.palette[code]), sum / weight, {.abs = 2e-3}))
            << "float16 entries, and values that go over to a neighbour when they are rounded";
      }
      options.search = true;
      options.joint_iterations = 5;
      const BlockPaletteRounding joint = round_block_palette(w, f, options);
      ASSERT_GE(joint.history.size(), 2u);
      EXPECT_TRUE(std::is_sorted(joint.history.rbegin(), joint.history.rend()));
      EXPECT_EQ(joint.history.back(), joint.cost);
      EXPECT_LT(joint.cost, joint.history.front()) << "a round gains";
      EXPECT_LT(joint.history.front(), ruled.cost) << "so does the search";
    }
}

TEST(RoundBlockPalette, UnderADiagonalHessianIsTheWeightedSearch) {
  const Matrix<float> w = normal_weights(20, 80, 10), row = spread_weights(1, 80, 11);
  Matrix<float> f(20, 80), h(80, 80);
  for (std::size_t i = 0; i < 20; ++i) std::copy(row.row(0).begin(), row.row(0).end(), f.row(i).begin());
  for (std::size_t j = 0; j < 80; ++j) h(j, j) = row(0, j);
  for (BlockPaletteOptions options : all_options(true)) {
    options.block = 80;  // longer than what the Hessian's kernel takes at a time
    SCOPED_TRACE(text_of(options));
    const BlockPaletteRounding a = round_block_palette_hessian(w, f, h, options),
                               b = round_block_palette(w, f, options);
    EXPECT_TRUE(test::near(a.cost, b.cost, {.rel = 1e-4}));  // sums in another order choose among like scales
  }
}

TEST(RoundBlockPalette, UnderAHessianLosesLessOfItThanWithout) {
  Random random(12);
  const std::size_t n = 32;
  const Matrix<float> w = normal_weights(64, n, 13);
  Matrix<float> h(n, n);
  Matrix<double> x(40, n);
  for (std::size_t t = 0; t < 40; ++t) {
    const double common = random.normal();
    for (std::size_t j = 0; j < n; ++j) x(t, j) = common + random.normal();
  }
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0.0;
      for (std::size_t t = 0; t < 40; ++t) sum += x(t, i) * x(t, j);
      h(i, j) = static_cast<float>(sum);
    }
  const auto loss_of = [&](const BlockPaletteRounding& r) {
    double loss = 0.0;
    for (std::size_t i = 0; i < w.rows(); ++i) {
      std::vector<double> delta;
      for (std::size_t j = 0; j < n; ++j)
        delta.push_back(static_cast<double>(w(i, j)) - static_cast<double>(r.palette[r.codes(i, j)]) *
                                                           static_cast<double>(r.scales(i, 0)) *
                                                           static_cast<double>(r.tensor_scale));
      for (std::size_t j = 0; j < n; ++j)
        for (std::size_t k = 0; k < n; ++k) loss += delta[j] * static_cast<double>(h(j, k)) * delta[k];
    }
    return loss;
  };
  for (BlockPaletteOptions options : all_options(true)) {
    options.block = 32;
    SCOPED_TRACE(text_of(options));
    EXPECT_LT(loss_of(round_block_palette_hessian(w, {}, h, options)), loss_of(round_block_palette(w, {}, options)));
  }
}

TEST(RoundBlockPalette, TakesBlocksOfZerosAndValuesAtTheEnds) {
  for (const bool search : {false, true})
    for (const BlockPaletteOptions& options : all_options(search)) {
      SCOPED_TRACE(text_of(options));
      Matrix<float> w(3, 48);
      for (std::size_t j = 0; j < 16; ++j) w(0, j) = 1e-30f;
      for (std::size_t j = 16; j < 32; ++j) w(1, j) = j % 2 == 0 ? 3000.0f : -1.0f;
      const BlockPaletteRounding r = round_block_palette(w, {}, options);
      for (const float scale : r.scales.values()) EXPECT_TRUE(std::isfinite(scale));
      for (const auto code : r.codes.values()) EXPECT_LT(code, r.palette.size());
      EXPECT_TRUE(std::isfinite(r.cost));
      const BlockPaletteRounding zeros = round_block_palette(Matrix<float>(2, 16), {}, options);
      EXPECT_TRUE(test::near(zeros.cost, 0.0, {.abs = 1e-70}));  // scales of 2^-127 at most
    }
}

TEST(RoundBlockPalette, DoesNotDependOnThreads) {
  const Matrix<float> w = normal_weights(70, 50, 14), f = spread_weights(70, 50, 15);
  const BlockPaletteOptions options{.bits = 3, .block = 16, .search = true, .joint_iterations = 2};
  const BlockPaletteRounding all = round_block_palette(w, f, options);
  set_thread_count(1);
  const BlockPaletteRounding one = round_block_palette(w, f, options);
  set_thread_count(0);
  EXPECT_TRUE(test::same_bits(all.scales.values(), one.scales.values()));
  EXPECT_TRUE(test::same_bits(all.palette, one.palette));
  EXPECT_TRUE(std::equal(all.codes.values().begin(), all.codes.values().end(), one.codes.values().begin()));
}

TEST(RoundBlockPalette, RefusesWhatItCannotRound) {
  Matrix<float> w = normal_weights(2, 32, 16);
  const auto round = [&](const BlockPaletteOptions& options) { (void)round_block_palette(w, {}, options); };
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { round({.bits = 5}); }, "expected 2 to 4 bits, got 5"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { round({.bits = 3, .palette = BlockPalette::kNf4}); },
                                                 "the palette nf4 has codes of 4 bits, got 3"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { (void)round_block_palette(w, Matrix<float>(2, 31), {}); },
                                                 "weights (2, 31)"));
  Matrix<float> f = ones(2, 32);
  f(1, 4) = -1.0f;
  EXPECT_TRUE(
      test::throws_with<InvalidArgument>([&] { (void)round_block_palette(w, f, {}); }, "-1 of row 1, column 4"));
  w(0, 3) = 1e6f;
  EXPECT_TRUE(test::throws_with<NumericalError>([&] { round({.palette = BlockPalette::kNf4}); },
                                                "row 0, column 0 is beyond float16"));
  w(1, 7) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(test::throws_with<NumericalError>([&] { round({.scale = ScaleType::kE8M0}); },
                                                "the weight at row 1, column 7 is nan"));
}

TEST(BlockPaletteColumns, RoundsAsTheWholeIsRounded) {
  const Matrix<float> w = normal_weights(21, 40, 17);
  for (const BlockPaletteOptions& options : all_options(true)) {
    SCOPED_TRACE(text_of(options));
    const BlockPaletteRounding r = round_block_palette(w, {}, options);
    const BlockPaletteColumns columns(r, options, true);
    for (std::size_t j = 0; j < w.cols(); ++j) {
      std::vector<float> values, decoded(w.rows()), again(w.rows());
      std::vector<std::uint8_t> codes(w.rows());
      for (std::size_t i = 0; i < w.rows(); ++i) values.push_back(w(i, j));
      columns.round(j, 0, values, codes.data(), decoded.data());
      columns.decode(j, 0, codes, again.data());
      EXPECT_TRUE(test::same_bits(decoded, again));
      for (std::size_t i = 0; i < w.rows(); ++i) {
        EXPECT_EQ(codes[i], r.codes(i, j)) << i << ", " << j;
        EXPECT_EQ(decoded[i], r.palette[codes[i]] * (r.scales(i, j / 16) * r.tensor_scale));
      }
    }
  }
}

TEST(BlockPaletteColumns, ChooseTheirScalesAnewWhereFeedbackHasMovedTheWeights) {
  const std::size_t n = 48;
  const Matrix<float> w = normal_weights(16, n, 18);
  Matrix<float> identity(n, n), coupled(n, n);
  for (std::size_t i = 0; i < n; ++i) {
    identity(i, i) = 1.0f;
    for (std::size_t j = 0; j < n; ++j) coupled(i, j) = i == j ? 1.0f : 0.6f;
  }
  for (const BlockPaletteOptions& options : all_options(false)) {
    if (options.scale == ScaleType::kE8M0) continue;  // too coarse for this to move them
    SCOPED_TRACE(text_of(options));
    const BlockPaletteRounding r = round_block_palette(w, {}, options);
    const auto feedback = [&](const Matrix<float>& h, bool static_groups) {
      BlockPaletteColumns columns(r, options, static_groups);
      const HessianFactor factor = factor_hessian(h.view(), {.damping = 0.0, .act_order = false});
      auto codes = round_with_feedback(w, factor, columns).codes;
      return std::pair(std::move(codes), columns.scales());
    };
    for (const bool static_groups : {true, false}) {  // nothing moves: both are rounding to nearest
      const auto [codes, scales] = feedback(identity, static_groups);
      EXPECT_TRUE(std::equal(codes.values().begin(), codes.values().end(), r.codes.values().begin()));
      EXPECT_TRUE(test::same_bits(scales.values(), r.scales.values()));
    }
    EXPECT_TRUE(test::same_bits(feedback(coupled, true).second.values(), r.scales.values()));
    const Matrix<float> moved = feedback(coupled, false).second;
    for (std::size_t i = 0; i < w.rows(); ++i) EXPECT_EQ(moved(i, 0), r.scales(i, 0)) << "reached first";
    EXPECT_FALSE(test::same_bits(moved.values(), r.scales.values()));
  }
}

}  // namespace
}  // namespace nibble::quant

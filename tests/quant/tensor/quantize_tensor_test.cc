// Every way to store a weight, on every kind of weight that breaks formulas: through quantize_tensor(), and read back.
#include "quant/tensor/quantize_tensor.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/random.h"
#include "quant/recipe/recipe.h"
#include "quant/store/quantization_config.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

class MatrixSource final : public WeightSource {
 public:
  explicit MatrixSource(const Matrix<float>& w) : w_(w) {}
  std::size_t rows() const override { return w_.rows(); }
  std::size_t cols() const override { return w_.cols(); }
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    std::copy(w_.data() + begin * w_.cols(), w_.data() + end * w_.cols(), destination);
  }
  void release() const override { ++releases_; }
  int releases() const { return releases_; }

 private:
  const Matrix<float>& w_;
  mutable std::atomic<int> releases_ = 0;
};

TensorSettings settings_of(const std::string& keys) {
  return Recipe::parse("defaults: {" + keys + "}", "recipe").settings("p.weight");
}

/// Gradients of outputs that hang together, but for one output without any; silent: none at all.
Matrix<float> output_hessian_for(std::size_t rows, bool silent) {
  Matrix<float> h(rows, rows);
  for (std::size_t i = 0; i < rows && !silent; ++i)
    for (std::size_t k = 0; k < rows; ++k) h(i, k) = i == 2 || k == 2 ? 0.0f : i == k ? 1.0f : 0.6f;
  return h;
}

WeightStatistics statistics_for(const Matrix<float>& w, bool silent) {
  Random random(11);
  WeightStatistics statistics;
  statistics.fisher = Matrix<double>(w.rows(), w.cols());
  statistics.hessian = Matrix<float>(w.cols(), w.cols());
  for (std::size_t j = 0; j < w.cols(); ++j) {
    statistics.second_moment.push_back(silent ? 0.0 : random.uniform());
    statistics.magnitude.push_back(silent ? 0.0 : random.uniform());
    statistics.mean_input.push_back(silent ? 0.0 : random.normal());
    for (std::size_t k = 0; k < w.cols() && !silent; ++k) statistics.hessian(j, k) = j == k ? 2.0f : 0.5f;
  }
  if (!silent)
    for (double& f : statistics.fisher.values()) f = std::exp(2.0 * random.normal());
  return statistics;
}

/// Those that `settings` ask for.
WeightStatistics statistics_for(const Matrix<float>& w, const TensorSettings& settings, bool silent) {
  WeightStatistics statistics = statistics_for(w, silent);
  if (settings.output_hessian) statistics.output_hessian = output_hessian_for(w.rows(), silent);
  return statistics;
}

/// What is stored, read again as from a file.
Matrix<float> read_back(const WeightParts& made, const TensorSettings& settings, const Matrix<float>& w) {
  const QuantizedTensor tensor("p", stored_tensor(settings, w.rows(), w.cols()).spec, made.parts);
  Matrix<float> values(w.rows(), w.cols());
  tensor.decode_rows(0, w.rows(), values.data());
  return values;
}

std::vector<std::string> all_recipes() {
  std::vector<std::string> recipes;
  for (const auto granularity : {"tensor", "channel-group", "channel"}) {
    for (const auto dtype : {"float16", "int8", "float32"})
      recipes.push_back(
          fmt::format("bits: 3, granularity: {}, palette_dtype: {}, weighting: fisher", granularity, dtype));
    recipes.push_back(fmt::format("bits: 8, granularity: {}, scaling: std", granularity));
    if (granularity != std::string_view("channel")) recipes.back() += ", sign: search";  // rows have to share palettes
    recipes.push_back(
        fmt::format("bits: 2, granularity: {}, scaling: least-squares, palette_dtype: int8, "
                    "outliers_sensitive: 0.02, outliers_large: 0.02",
                    granularity));
    recipes.push_back(fmt::format("granularity: {}, outliers_large: 0.1", granularity));
    recipes.push_back(fmt::format("granularity: {}, solver: gptq, scaling: std, shifting: true", granularity));
    recipes.push_back(fmt::format(
        "granularity: {}, solver: coordinate-descent, outliers_sensitive: 0.02, outliers_large: 0.03", granularity));
    recipes.push_back(
        fmt::format("granularity: {}, solver: coordinate-descent, codebook_iterations: 1, "
                    "palette_dtype: int8, scaling: absmax",
                    granularity));
    for (const int dim : {2, 4}) {
      recipes.push_back(fmt::format("bits: 6, cluster_dim: {}, granularity: {}", dim, granularity));
      recipes.push_back(
          fmt::format("bits: 4, cluster_dim: {}, granularity: {}, palette_dtype: int8, weighting: fisher, "
                      "outliers_sensitive: 0.05",
                      dim, granularity));
    }
  }
  for (const auto windows :
       {"bits: 2, window_bits: 6, weighting: fisher",
        "bits: 3, window_bits: 8, scaling: std, joint_iterations: 2, palette_dtype: int8, weighting: magnitude",
        "bits: 2, window_bits: 5, scaling: absmax, solver: gptq, shifting: true, palette_dtype: float32",
        "bits: 4, window_bits: 7, scaling: std, solver: gptq, codebook_iterations: 1",
        "bits: 1, window_bits: 4, scaling: std, solver: coordinate-descent, codebook_iterations: 1"})
    recipes.push_back(windows);
  for (const auto blocks :
       {"format: block-palette", "format: block-palette, bits: 2, group_size: 16, weighting: fisher",
        "format: block-palette, bits: 3, search: weighted, weighting: magnitude, joint_iterations: 2",
        "format: block-palette, palette: nf4, search: error",
        "format: block-palette, palette: iq4_nl, search: weighted, weighting: fisher, solver: gptq, shifting: true",
        "format: block-palette, palette: fp4, block_scale: e8m0, search: hessian",
        "format: block-palette, palette: fp4, block_scale: e4m3, group_size: 16, solver: coordinate-descent",
        "format: block-palette, block_scale: e4m3, search: hessian, weighting: fisher",
        "format: block-palette, block_scale: e8m0, solver: gptq, static_groups: false, act_order: false"})
    recipes.push_back(blocks);
  for (const auto grid : {"format: int4-block", "format: int4-block, int4_scale: absmax-7.5",
                          "format: int4-block, int4_scale: minmax, zero_point: true", "format: uniform, bits: 2",
                          "format: uniform, bits: 3, zero_point: true", "format: uniform, bits: 8, group_size: 16",
                          "format: uniform, bits: 2, group_size: 16, uniform_scale: extreme"})
    for (const auto search : {"search: none", "search: error", "search: weighted, weighting: fisher",
                              "search: weighted, weighting: second-moment", "search: hessian, solver: gptq",
                              "search: error, solver: coordinate-descent"})
      recipes.push_back(fmt::format("{}, {}, shifting: true", grid, search));
  const std::string coupled = "solver: coordinate-descent, output_hessian: true";
  for (const auto keys :
       {"bits: 3", "bits: 2, granularity: channel, scaling: std, codebook_iterations: 1", "bits: 3, weighting: hessian",
        "bits: 2, window_bits: 6, scaling: std, weighting: hessian",
        "format: uniform, bits: 3, search: weighted, weighting: hessian",
        "bits: 4, granularity: channel-group, palette_dtype: int8, codebook_iterations: 1",
        "bits: 3, scaling: std, outliers_sensitive: 0.02, outliers_large: 0.03, codebook_iterations: 1",
        "bits: 2, window_bits: 6, scaling: std, codebook_iterations: 1, shifting: true",
        "bits: 4, window_bits: 8, codebook_iterations: 1", "format: uniform, bits: 2",
        "format: uniform, bits: 3, group_size: 16, static_groups: false, act_order: false",
        "format: int4-block, search: hessian", "format: block-palette, palette: fp4, block_scale: e8m0",
        "format: block-palette, bits: 2, search: error, static_groups: true"})
    recipes.push_back(fmt::format("{}, {}", keys, coupled));
  return recipes;
}

struct Case {
  std::string name;
  Matrix<float> w;
};

std::vector<Case> awkward_weights() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, std::size_t rows, std::size_t cols, const auto& value) {
    Random random(cases.size());
    Case& made = cases.emplace_back(Case{name, Matrix<float>(rows, cols)});
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < cols; ++j) made.w(i, j) = value(i, j, random.normal());
  };
  add("normal", 11, 36, [](auto, auto, double z) { return static_cast<float>(0.02 * z); });
  add("zeros", 3, 20, [](auto, auto, double) { return 0.0f; });
  add("constant rows", 5, 24, [](std::size_t i, auto, double) { return static_cast<float>(i) - 2.0f; });
  add("two values", 4, 40, [](auto, auto, double z) { return z < 0.0 ? -0.5f : 0.25f; });
  add("huge outliers", 9, 32,
      [](std::size_t i, std::size_t j, double z) { return i == 2 && j == 5 ? -3e4f : static_cast<float>(0.01 * z); });
  add("one row", 1, 44, [](auto, auto, double z) { return static_cast<float>(z); });
  add("tiny", 6, 20, [](auto, auto, double z) { return static_cast<float>(1e-7 * z); });
  add("one vector", 7, 4, [](auto, auto, double z) { return static_cast<float>(z); });
  add("one column", 13, 1, [](auto, auto, double z) { return static_cast<float>(z); });
  return cases;
}

// tr(H_O D H Dᵀ) in plain loops.
double coupled_loss(const Matrix<float>& w, const Matrix<float>& values, const WeightStatistics& statistics) {
  Matrix<double> product(w.rows(), w.cols());
  const auto error = [&](std::size_t i, std::size_t j) {
    return static_cast<double>(w(i, j)) - static_cast<double>(values(i, j));
  };
  for (std::size_t i = 0; i < w.rows(); ++i)
    for (std::size_t j = 0; j < w.cols(); ++j)
      for (std::size_t k = 0; k < w.cols(); ++k)
        product(i, j) += error(i, k) * static_cast<double>(statistics.hessian(k, j));
  double loss = 0.0;
  for (std::size_t i = 0; i < w.rows(); ++i)
    for (std::size_t k = 0; k < w.rows(); ++k)
      for (std::size_t j = 0; j < w.cols(); ++j)
        loss += static_cast<double>(statistics.output_hessian(i, k)) * product(i, j) * error(k, j);
  return loss;
}

TEST(QuantizeTensor, SurvivesEveryAwkwardWeightInEveryFormat) {
  for (const std::string& keys : all_recipes()) {
    const TensorSettings settings = settings_of(keys);
    for (const auto& [name, w] : awkward_weights()) {
      if (w.cols() % settings.cluster_dim != 0) continue;  // refused when the plan is made
      for (const bool silent : {false, true}) {
        SCOPED_TRACE(fmt::format("{}; {}{}", keys, name, silent ? ", statistics of zeros" : ""));
        const WeightParts made = quantize_tensor("p", MatrixSource(w), settings, statistics_for(w, settings, silent));
        const Matrix<float> values = read_back(made, settings, w);
        double error = 0.0, norm = 0.0;
        for (std::size_t i = 0; i < w.size(); ++i) {
          ASSERT_TRUE(std::isfinite(values.data()[i]));
          error += std::pow(static_cast<double>(w.data()[i]) - static_cast<double>(values.data()[i]), 2);
          norm += std::pow(static_cast<double>(w.data()[i]), 2);
        }
        if (norm == 0.0) {
          EXPECT_EQ(error, 0.0) << "zeros stay zeros";
        }
        // The same sum over values decoded once more.
        EXPECT_TRUE(
            test::near(made.relative_error, norm > 0.0 ? std::sqrt(error / norm) : 0.0, {.abs = 1e-12, .rel = 1e-9}));
        // Weights of 1e-7 are a float16 step or two, whatever holds them. Where outputs make up for each other, it is
        // their loss that is less than that of storing nothing: the error of one huge weight is spread over others.
        const WeightStatistics statistics = statistics_for(w, settings, silent);
        if (name != "tiny" && statistics.output_hessian.size() == 0) {
          EXPECT_LE(made.relative_error, 1.0);
        } else if (name != "tiny") {
          EXPECT_LE(coupled_loss(w, values, statistics),
                    coupled_loss(w, Matrix<float>(w.rows(), w.cols()), statistics));
        }
      }
    }
  }
}

TEST(QuantizeTensor, OutputHessiansLowerTheLossThatTheyDefine) {
  Random random(7);
  Matrix<float> w(40, 48);
  for (float& value : w.values()) value = static_cast<float>(0.02 * random.normal());
  for (const std::string keys :
       {"bits: 2", "bits: 3, granularity: channel-group, group_size: 10, codebook_iterations: 2",
        "bits: 2, scaling: std, codebook_iterations: 1",
        "bits: 2, window_bits: 6, scaling: std, codebook_iterations: 1", "format: uniform, bits: 2",
        "format: int4-block", "format: block-palette, palette: nf4", "bits: 2, outliers_large: 0.01"}) {
    SCOPED_TRACE(keys);
    const auto alone = settings_of(keys + ", solver: coordinate-descent"),
               coupled = settings_of(keys + ", solver: coordinate-descent, output_hessian: true");
    WeightStatistics statistics = statistics_for(w, coupled, false);
    const WeightParts with = quantize_tensor("p", MatrixSource(w), coupled, statistics);
    const double loss = coupled_loss(w, read_back(with, coupled, w), statistics);
    WeightStatistics without = statistics;
    without.output_hessian = {};
    const WeightParts separate = quantize_tensor("p", MatrixSource(w), alone, without);
    EXPECT_LT(loss, 0.97 * coupled_loss(w, read_back(separate, alone, w), statistics));
    EXPECT_EQ(with.parts.size(), separate.parts.size());
  }
}

TEST(QuantizeTensor, KeepsOutliersAsTheyAreButForFloat16) {
  Random random(1);
  Matrix<float> w(24, 40);
  for (float& value : w.values()) value = static_cast<float>(0.02 * random.normal());
  w(3, 7) = 5.0f;
  w(20, 39) = -4.0f;
  const WeightStatistics statistics = statistics_for(w, false);
  for (const std::string keys :
       {"", "scaling: std, ", "granularity: channel, ", "cluster_dim: 2, ", "palette_dtype: int8, ",
        "solver: gptq, scaling: std, ", "solver: coordinate-descent, granularity: channel, "}) {
    SCOPED_TRACE(keys);
    const auto settings = settings_of(keys + "bits: 3, outliers_large: 0.0022");  // 2.1 of 960
    const WeightParts made = quantize_tensor("p", MatrixSource(w), settings, statistics);
    const Matrix<float> values = read_back(made, settings, w);
    // Solvers give them what makes up for the other errors of their row, each below the 0.02 that weights vary by.
    const double more = keys.starts_with("solver") ? 0.05 : 0.0;
    EXPECT_TRUE(test::near(values(3, 7), 5.0, {.abs = more, .rel = 0x1p-11}));
    EXPECT_TRUE(test::near(values(20, 39), -4.0, {.abs = more, .rel = 0x1p-11}));
    const auto plain = settings_of(keys + "bits: 3");
    const WeightParts without = quantize_tensor("p", MatrixSource(w), plain, statistics);
    EXPECT_LT(made.relative_error, without.relative_error) << "and the others fare better";
    const auto bytes = [](const WeightParts& parts) {
      return std::accumulate(parts.parts.begin(), parts.parts.end(), std::size_t{0},
                             [](std::size_t sum, const TensorPart& part) { return sum + part.bytes.size(); });
    };
    EXPECT_EQ(bytes(made), bytes(without) + 4 * 25 + 2 * (4 + 2)) << "row bounds, columns, values";
  }
}

TEST(QuantizeTensor, OutliersAreThoseWhoseErrorCostsMost) {
  Random random(3);
  Matrix<float> w(32, 48);
  for (float& value : w.values()) value = static_cast<float>(0.02 * random.normal());
  w(3, 7) = 0.12f;  // the largest, but of an input that hardly counts
  WeightStatistics statistics = statistics_for(w, false);
  for (std::size_t j = 0; j < 48; ++j) {
    const float size = j == 7 ? 1e-3f : j == 11 ? 30.0f : 1.0f;
    for (std::size_t k = 0; k < 48; ++k) {
      statistics.hessian(j, k) *= size;
      statistics.hessian(k, j) *= size;
    }
  }
  const std::string solver = "bits: 2, solver: coordinate-descent, codebook_iterations: 1, ";
  const auto made = [&](const std::string& keys) {
    return quantize_tensor("p", MatrixSource(w), settings_of(solver + keys), statistics);
  };
  const WeightParts saving = made("outliers_saving: 0.01"), large = made("outliers_large: 0.01");  // 15 of them
  EXPECT_LT(*saving.output_error, 0.8 * *large.output_error);
  const QuantizedTensor tensor("p", stored_tensor(settings_of(solver + "outliers_saving: 0.01"), 32, 48).spec,
                               saving.parts);
  ASSERT_EQ(tensor.outlier_columns().size(), 15u);
  const auto at = [&](std::int32_t column) {
    return std::count(tensor.outlier_columns().begin(), tensor.outlier_columns().end(), column);
  };
  EXPECT_EQ(at(7), 0);
  EXPECT_GT(at(11), 5);
}

TEST(QuantizeTensor, SlicesOfRowsGiveTheBytesOfTheWhole) {
  Random random(5);
  Matrix<float> w(21, 36);
  for (float& value : w.values()) value = static_cast<float>(0.02 * random.normal());
  std::vector<std::string> recipes = all_recipes();
  for (const auto more : {"format: float16", "granularity: channel, weighting: magnitude, shifting: true",
                          "granularity: channel-group, group_size: 4, palette_dtype: int8", "granularity: channel"})
    recipes.emplace_back(more);
  for (const auto more :
       {"weighting: second-moment, palette_dtype: int8, shifting: true", "weighting: magnitude", "bits: 6"})
    recipes.emplace_back(more);
  // Slices of 5 rows; and slices of one, of which the whole is so many that one palette for all is fitted slice by
  // slice.
  constexpr std::size_t kFiveRows = 5 * 36, kOneRow = 5;
  ASSERT_GT(w.size(), kHeldSlices * kOneRow);
  std::size_t sliced = 0, shared = 0;
  for (const std::string& keys : recipes) {
    for (const auto& [fisher, slice] :
         {std::pair{false, kFiveRows}, std::pair{true, kFiveRows}, std::pair{false, kOneRow}}) {
      SCOPED_TRACE(
          fmt::format("{}{}, slices of {} weights", keys, fisher ? ", Fisher sensitivities at hand" : "", slice));
      const TensorSettings settings = settings_of(keys);
      if (!fisher && (settings.weighting == Weighting::kFisher || settings.outliers_sensitive > 0.0)) continue;
      WeightStatistics statistics = statistics_for(w, settings, false);
      if (!fisher) statistics.fisher = {};
      const WeightParts whole = quantize_tensor("p", MatrixSource(w), settings, statistics);
      const WeightParts made = quantize_tensor("p", MatrixSource(w), settings, statistics, slice);
      const bool in_slices = rows_per_slice(settings, 21, 36, fisher, slice) < 21;
      sliced += in_slices;
      shared += in_slices && settings.has_palette() && settings.granularity == Granularity::kTensor;
      ASSERT_EQ(made.parts.size(), whole.parts.size());
      for (std::size_t i = 0; i < made.parts.size(); ++i) {
        EXPECT_EQ(made.parts[i].suffix, whole.parts[i].suffix);
        EXPECT_EQ(made.parts[i].shape, whole.parts[i].shape);
        EXPECT_TRUE(std::ranges::equal(made.parts[i].bytes, whole.parts[i].bytes)) << made.parts[i].suffix;
      }
      EXPECT_EQ(made.relative_error, whole.relative_error);
      // Differences of sums of costs, relative to these: what the order of adding up to 21 rows' changes.
      EXPECT_TRUE(test::near(made.optimality_gap, whole.optimality_gap, {.abs = 64 * 0x1p-53}));
      EXPECT_EQ(made.fisher_error, whole.fisher_error);
      EXPECT_EQ(made.output_error.has_value(), whole.output_error.has_value());
      // The same quadratic forms, their float32 products in other tiles of rows.
      if (made.output_error) {
        EXPECT_TRUE(test::near(*made.output_error, *whole.output_error, {.rel = 1e-5}));
      }
      EXPECT_TRUE(test::same_bits(made.bias_correction, whole.bias_correction));
    }
  }
  EXPECT_GT(sliced, 20u) << "or nothing was tested";
  EXPECT_GT(shared, 2u);
}

// The search of inputs' scales asks for nearest codes of recipes that have a solver.
TEST(QuantizeTensor, WeightsOfHessiansAreNotCutIntoSlices) {
  Random random(19);
  Matrix<float> w(21, 36);
  for (float& value : w.values()) value = static_cast<float>(0.02 * random.normal());
  for (const auto granularity : {"tensor", "channel-group, group_size: 4"}) {
    SCOPED_TRACE(granularity);
    TensorSettings settings = settings_of(fmt::format(
        "weighting: hessian, solver: coordinate-descent, output_hessian: true, granularity: {}", granularity));
    WeightStatistics statistics = statistics_for(w, settings, false);
    statistics.fisher = {};  // which tie rows by themselves
    ASSERT_EQ(statistics.output_hessian.rows(), 21u);
    settings.solver = Solver::kNearest;
    const WeightParts whole = quantize_tensor("p", MatrixSource(w), settings, statistics);
    const WeightParts made = quantize_tensor("p", MatrixSource(w), settings, statistics, 5);
    for (std::size_t i = 0; i < made.parts.size(); ++i)
      EXPECT_TRUE(std::ranges::equal(made.parts[i].bytes, whole.parts[i].bytes)) << made.parts[i].suffix;
    TensorSettings plain = settings;
    plain.weighting = Weighting::kNone;
    const WeightParts other = quantize_tensor("p", MatrixSource(w), plain, statistics);
    EXPECT_FALSE(std::ranges::equal(whole.parts[0].bytes, other.parts[0].bytes) &&
                 std::ranges::equal(whole.parts[1].bytes, other.parts[1].bytes));
  }
}

TEST(QuantizeTensor, LetsGoOfPagesWhileItGoesThroughATensor) {
  Matrix<float> w(64, 32);
  for (std::size_t i = 0; i < w.size(); ++i) w.data()[i] = static_cast<float>(i % 7);
  const MatrixSource source(w);
  set_thread_count(1);
  quantize_tensor("p", source, settings_of("format: int4-block"), {}, 2 * 32);
  set_thread_count(0);
  EXPECT_GT(source.releases(), 4) << "of 32 slices of 2 rows";
}

TEST(QuantizeTensor, NamesTheRowOfAWeightInALaterSlice) {
  Matrix<float> w(9, 32);
  for (std::size_t i = 0; i < w.size(); ++i) w.data()[i] = static_cast<float>(i % 7) - 3.0f;
  const auto refused = [&](const std::string& keys, float bad, std::string_view words) {
    w(7, 3) = bad;
    return test::throws_with<NumericalError>(
        [&] { (void)quantize_tensor("p", MatrixSource(w), settings_of(keys), {}, 2 * 32); }, words);
  };
  EXPECT_TRUE(refused("format: int4-block", std::numeric_limits<float>::infinity(), "row 7, column 3"));
  EXPECT_TRUE(refused("format: float16", 1e6f, "row 7, column 3"));
  w(7, 3) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(test::throws_with<NumericalError>(
      [&] { (void)quantize_tensor("p", MatrixSource(w), settings_of("bits: 4"), {}, 2); },
      "got nan at row 7, column 3"));
  EXPECT_TRUE(refused("format: int4-block", 3e6f,
                      "row 1, column 0 is beyond float16 (65504) (rows and palettes counted from row 6)"));
}

TEST(QuantizeTensor, NamesWhatNoFormatHolds) {
  Matrix<float> w(4, 32);
  for (std::size_t i = 0; i < w.size(); ++i) w.data()[i] = static_cast<float>(i % 7) - 3.0f;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    w(2, 9) = bad;
    for (const std::string& keys : all_recipes())
      EXPECT_TRUE(test::throws_with<NumericalError>(
          [&] {
            (void)quantize_tensor("p", MatrixSource(w), settings_of(keys), statistics_for(w, settings_of(keys), false));
          },
          "p.weight", "row 2, column 9"))
          << keys;
  }
  w(2, 9) = 3e6f;
  for (const auto keys : {"bits: 8", "bits: 8, scaling: std", "bits: 8, cluster_dim: 2", "format: int4-block",
                          "format: int4-block, search: error"})
    EXPECT_TRUE(test::throws_with<NumericalError>(
        [&] { (void)quantize_tensor("p", MatrixSource(w), settings_of(keys), {}); }, "65504", "p: "))
        << keys;
  for (const auto keys : {"bits: 8, palette_dtype: int8", "bits: 8, palette_dtype: float32"})
    EXPECT_NO_THROW((void)quantize_tensor("p", MatrixSource(w), settings_of(keys), {})) << keys;
  EXPECT_TRUE(test::throws_with<NumericalError>(
      [&] { (void)quantize_tensor("p", MatrixSource(w), settings_of("outliers_large: 0.01"), {}); }, "outlier_values",
      "row 2, column 9"));
}

TEST(QuantizeTensor, ExtremeScalesOfGridsHaveEitherSignAndUseEveryCode) {
  Matrix<float> w(2, 16);
  for (std::size_t j = 0; j < w.cols(); ++j) {  // -2, -1, 0 and 1 times a half, and times minus a half
    w(0, j) = 0.5f * (static_cast<float>(j % 4) - 2.0f);
    w(1, j) = -w(0, j);
  }
  const auto error_of = [&](const std::string& keys) {
    return quantize_tensor("p", MatrixSource(w), settings_of("format: uniform, bits: 2, " + keys), {}).relative_error;
  };
  EXPECT_EQ(error_of("uniform_scale: extreme"), 0.0);
  EXPECT_EQ(error_of("uniform_scale: extreme, group_size: 16, search: error"), 0.0);
  EXPECT_GT(error_of("uniform_scale: absmax"), 0.1);
  EXPECT_EQ(error_of("uniform_scale: absmax"), error_of("group_size: 0"));
}

TEST(QuantizeTensor, SearchedScalesLoseLessInWhatTheyAreSearchedFor) {
  Random random(2);
  Matrix<float> w(32, 64);
  for (float& value : w.values()) value = static_cast<float>(0.02 * random.normal());
  const WeightStatistics statistics = statistics_for(w, false);
  const std::string base = "format: int4-block, search: ";
  const auto made = [&](const std::string& search) {
    return quantize_tensor("p", MatrixSource(w), settings_of(base + search), statistics);
  };
  const auto none = made("none"), error = made("error"), fisher = made("weighted, weighting: fisher"),
             hessian = made("hessian");
  EXPECT_LT(error.relative_error, none.relative_error);
  EXPECT_LT(*fisher.fisher_error, *none.fisher_error);
  EXPECT_LT(*fisher.fisher_error, *error.fisher_error);
  EXPECT_LT(*hessian.output_error, *error.output_error);
}

}  // namespace
}  // namespace nibble::quant

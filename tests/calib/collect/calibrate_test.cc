#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <cmath>
#include <limits>
#include <map>
#include <ostream>
#include <thread>

#include "calib/collect/collector.h"
#include "calib/collect/extend.h"
#include "calib/collect/token_metric.h"
#include "calib/stats/derived.h"
#include "calib/stats/merge_stats.h"
#include "core/error.h"
#include "core/machine/program_identity.h"
#include "core/machine/thread_pool.h"
#include "model/architecture/families.h"
#include "model/architecture/parts.h"
#include "tests/calib/collect/toy_calibration.h"
#include "tests/support/compare.h"
#include "tests/support/layers.h"
#include "tests/support/throws.h"

namespace nibble::calib {
namespace {

/// X and dY of every linear layer for one window, from a forward and a backward pass over that window alone.
using Traces = std::map<std::string, std::pair<Matrix<float>, Matrix<float>>>;

Matrix<float> copy_of(MatrixView<const float> view) {
  Matrix<float> matrix(view.rows(), view.cols());
  for (std::size_t r = 0; r < view.rows(); ++r) std::copy_n(view.row(r).data(), view.cols(), matrix.row(r).data());
  return matrix;
}

Traces trace_window(const ToyCalibration& toy, std::size_t window, float weight) {
  const std::span<const TokenId> tokens(toy.tokens.data() + window * kWindow, kWindow);
  const std::size_t starts[] = {0, kWindow};
  const model::Batch batch{tokens, starts};
  std::vector<Matrix<float>> boundaries(1, Matrix<float>(kWindow, toy.architecture.hidden));
  toy.model->embed(batch, boundaries[0]);
  for (std::size_t b = 0; b < toy.architecture.blocks.size(); ++b) {
    boundaries.push_back(boundaries[b]);
    toy.model->forward_block(b, batch, boundaries.back(), {}, nullptr);
  }
  Traces traces;
  model::Hooks<float> hooks;
  hooks.on_linear_gradient = [&](const std::string& module, MatrixView<const float> x, MatrixView<const float> dy,
                                 const model::HookRows&) {
    traces[module] = {copy_of(x), copy_of(dy)};
  };
  std::vector<std::int64_t> targets(kWindow, 0);
  for (std::size_t t = 0; t + 1 < kWindow; ++t) targets[t] = tokens[t + 1];
  std::vector<float> weights(kWindow, weight), losses(kWindow);
  weights.back() = 0.0f;
  Matrix<float> dx(kWindow, toy.architecture.hidden);
  toy.model->backward_head(boundaries.back(), targets, weights, losses, dx, &hooks);
  for (std::size_t b = toy.architecture.blocks.size(); b-- > 0;)
    toy.model->backward_block(b, batch, boundaries[b], dx, &hooks);
  return traces;
}

double at(const Matrix<float>& m, std::size_t r, std::size_t c) { return static_cast<double>(m(r, c)); }

struct Expected {
  std::vector<double> sum_x, sum_s_x;
  Matrix<double> fisher, xxt, s_xxt, dydyt;
  double sum_s = 0.0;
};

// Plain double loops over the traces.
Expected sum_traces(const ToyCalibration& toy, const std::string& module, FisherFlavour flavour, bool centre) {
  const bool sequence = flavour == FisherFlavour::kSequence;
  const std::size_t windows = toy.tokens.size() / kWindow;
  std::vector<Traces> traces;
  for (std::size_t w = 0; w < windows; ++w)
    traces.push_back(trace_window(toy, w, sequence ? 1.0f / (kWindow - 1) : 1.0f));
  const std::size_t in = traces[0][module].first.cols(), out = traces[0][module].second.cols();
  std::vector<double> mean(in);
  for (auto& trace : traces)
    for (std::size_t t = 0; t < kWindow && centre; ++t)
      for (std::size_t i = 0; i < in; ++i) mean[i] += at(trace[module].first, t, i) / double(windows * kWindow);

  Expected e{std::vector<double>(in),
             std::vector<double>(in),
             Matrix<double>(out, in),
             Matrix<double>(in, in),
             Matrix<double>(in, in),
             Matrix<double>(out, out),
             0.0};
  for (auto& trace : traces) {
    const auto& [x, dy] = trace[module];
    for (std::size_t t = 0; t < kWindow; ++t) {
      double s = 0.0;
      for (std::size_t o = 0; o < out; ++o) s += at(dy, t, o) * at(dy, t, o) / double(out);
      e.sum_s += s;
      for (std::size_t o = 0; o < out; ++o)
        for (std::size_t p = 0; p < out; ++p) e.dydyt(o, p) += at(dy, t, o) * at(dy, t, p);
      for (std::size_t i = 0; i < in; ++i) {
        e.sum_x[i] += at(x, t, i);
        e.sum_s_x[i] += s * at(x, t, i);
        for (std::size_t j = 0; j < in; ++j) {
          e.xxt(i, j) += at(x, t, i) * at(x, t, j);
          e.s_xxt(i, j) += s * at(x, t, i) * at(x, t, j);
        }
      }
    }
    for (std::size_t o = 0; o < out; ++o) {
      for (std::size_t i = 0; i < in; ++i) {
        double g = 0.0, squares = 0.0;
        for (std::size_t t = 0; t < kWindow; ++t) {
          const double term = at(dy, t, o) * (at(x, t, i) - mean[i]);
          g += term;
          squares += term * term;
        }
        e.fisher(o, i) += sequence ? g * g : squares;
      }
    }
  }
  return e;
}

std::vector<double> widened(const Matrix<float>& m) { return {m.values().begin(), m.values().end()}; }

template <class T>
double trace_of(const Matrix<T>& h) {
  double trace = 0.0;
  for (std::size_t i = 0; i < h.rows(); ++i) trace += static_cast<double>(h(i, i));
  return trace;
}

struct Case {
  std::string family;
  FisherFlavour flavour;
  bool centre;
};

std::ostream& operator<<(std::ostream& stream, const Case& c) {
  return stream << c.family << ' ' << to_text(c.flavour) << (c.centre ? " centred" : "");
}

class Calibrate : public testing::TestWithParam<Case> {};

// Both sides come from the same network, in batches of other sizes: float rounding of two layers, a few times 1e-6;
// products of 16 terms and a square add as much again. 1e-5 in the Frobenius norm.
TEST_P(Calibrate, EveryStatisticMatchesPlainLoops) {
  const auto& [family, flavour, centre] = GetParam();
  const ToyCalibration toy(family);
  CalibrationJob job = toy.job("calib.h5");
  job.settings.flavour = flavour;
  job.settings.head = !centre;
  job.centre = centre ? Centre::kOwn : Centre::kNone;
  const auto file = toy.run(job);
  EXPECT_EQ(file->settings().centre, centre ? kCentreOwn : kCentreNone);
  EXPECT_EQ(file->layers().size(), test::layers_of(toy.architecture).size() + (centre ? 0 : 1));
  for (const LayerInfo& info : file->layers()) {
    SCOPED_TRACE(info.module);
    const LayerStats layer = file->read(info.module);
    const Expected expected = sum_traces(toy, info.module, flavour, centre);
    EXPECT_EQ(layer.tokens, toy.tokens.size());
    EXPECT_EQ(layer.samples, toy.tokens.size() / kWindow);
    EXPECT_TRUE(test::relative_error_within(layer.sum_x, expected.sum_x, 1e-5));
    EXPECT_TRUE(test::relative_error_within(widened(layer.fisher), expected.fisher.values(), 1e-5));
    EXPECT_TRUE(test::relative_error_within(widened(layer.sum_xxt), expected.xxt.values(), 1e-5));
    EXPECT_TRUE(test::near(layer.sum_s, expected.sum_s, {.rel = 1e-5}));
    EXPECT_TRUE(test::relative_error_within(layer.sum_s_x, expected.sum_s_x, 1e-5));
    EXPECT_TRUE(test::relative_error_within(widened(layer.sum_s_xxt), expected.s_xxt.values(), 1e-5));
    if (info.module == toy.architecture.head.linear.module) {
      EXPECT_EQ(layer.sum_dydyt.size(), 0u);
      continue;
    }
    EXPECT_TRUE(test::relative_error_within(widened(layer.sum_dydyt), expected.dydyt.values(), 1e-5));
    const Matrix<double> h = output_hessian(layer);
    EXPECT_TRUE(test::near(trace_of(h), static_cast<double>(layer.out), {.rel = 1e-13}));
    // Its diagonal is what the guided Hessian weighs tokens by: tr(sum_dydyt) = out · sum_s.
    EXPECT_TRUE(test::near(trace_of(layer.sum_dydyt), static_cast<double>(layer.out) * layer.sum_s, {.rel = 1e-5}));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Calibrate,
                         testing::Values(Case{"gpt2", FisherFlavour::kSequence, false},
                                         Case{"llama", FisherFlavour::kSequence, false},
                                         Case{"llama", FisherFlavour::kPosition, false},
                                         Case{"gpt2", FisherFlavour::kSequence, true},
                                         Case{"llama", FisherFlavour::kPosition, true}),
                         [](const auto& instance) {
                           return instance.param.family + "_" + std::string(to_text(instance.param.flavour)) +
                                  (instance.param.centre ? "_centred" : "");
                         });

// By Gauss and Jordan.
Matrix<double> inverse_of(Matrix<double> a) {
  const std::size_t n = a.rows();
  Matrix<double> inverse(n, n);
  for (std::size_t i = 0; i < n; ++i) inverse(i, i) = 1.0;
  for (std::size_t p = 0; p < n; ++p) {  // A is positive definite: no pivoting
    const double pivot = a(p, p);
    for (std::size_t j = 0; j < n; ++j) a(p, j) /= pivot, inverse(p, j) /= pivot;
    for (std::size_t i = 0; i < n; ++i) {
      const double factor = a(i, p);
      if (i == p || factor == 0.0) continue;
      for (std::size_t j = 0; j < n; ++j) a(i, j) -= factor * a(p, j), inverse(i, j) -= factor * inverse(p, j);
    }
  }
  return inverse;
}

Matrix<double> damped_inverse(const Matrix<double>& moment) {
  Matrix<double> damped = moment;
  const double unit = static_cast<double>(moment.rows()) / trace_of(moment);
  for (double& value : damped.values()) value *= unit;
  for (std::size_t i = 0; i < moment.rows(); ++i)
    damped(i, i) += metric_damping(moment.rows(), kGuideWindows * kWindow);
  return inverse_of(damped);
}

double form(const Matrix<double>& a, std::span<const double> v) {
  double sum = 0.0;
  for (std::size_t i = 0; i < v.size(); ++i)
    for (std::size_t j = 0; j < v.size(); ++j) sum += v[i] * a(i, j) * v[j];
  return sum;
}

std::vector<double> row_of(const Matrix<float>& m, std::size_t row, const std::vector<double>& less = {}) {
  std::vector<double> values(m.row(row).begin(), m.row(row).end());
  for (std::size_t i = 0; i < less.size(); ++i) values[i] -= less[i];
  return values;
}

void add_outer(Matrix<double>& sums, double weight, std::span<const double> v) {
  for (std::size_t i = 0; i < v.size(); ++i)
    for (std::size_t j = 0; j < v.size(); ++j) sums(i, j) += weight * v[i] * v[j];
}

// Both factors in plain loops over the traces, the metric from the first 16 of 20 windows. Activations and gradients
// are within a few 1e-6 of theirs, and in directions of little size an inverse makes ten times that of it: 1e-4.
TEST(CalibrateRun, WhitenedInputsAndGradientsWeighTokens) {
  const ToyCalibration toy("llama", kGuideWindows + 4);
  CalibrationJob job = toy.job("calib.h5"), plain = toy.job("plain.h5");
  job.settings.guide = Guide::kWhitened;
  const auto file = toy.run(job), plainly = toy.run(plain);
  EXPECT_EQ(file->settings().guide, Guide::kWhitened);
  EXPECT_EQ(plainly->settings().guide, Guide::kPlain);
  std::vector<Traces> traces;
  for (std::size_t w = 0; w < kGuideWindows + 4; ++w) traces.push_back(trace_window(toy, w, 1.0f / (kWindow - 1)));
  for (const LayerInfo& info : file->layers()) {
    SCOPED_TRACE(info.module);
    const LayerStats layer = file->read(info.module), other = plainly->read(info.module);
    const auto for_tokens = [&](std::size_t windows, const auto& use) {
      for (std::size_t w = 0; w < windows; ++w)
        for (std::size_t t = 0; t < kWindow; ++t) use(traces[w][info.module].first, traces[w][info.module].second, t);
    };
    constexpr double kFirst = double(kGuideWindows * kWindow);
    std::vector<double> mean(layer.in);
    for_tokens(kGuideWindows, [&](const auto& x, const auto&, std::size_t t) {
      for (std::size_t i = 0; i < layer.in; ++i) mean[i] += at(x, t, i) / kFirst;
    });
    Matrix<double> inputs(layer.in, layer.in), gradients(layer.out, layer.out);
    for_tokens(kGuideWindows, [&](const auto& x, const auto& dy, std::size_t t) {
      add_outer(inputs, 1.0, row_of(x, t, mean));
      add_outer(gradients, 1.0, row_of(dy, t));
    });
    const Matrix<double> of_inputs = damped_inverse(inputs), of_gradients = damped_inverse(gradients);
    double size = 0.0, whitened = 0.0, whitened_inputs = 0.0;
    for_tokens(kGuideWindows, [&](const auto& x, const auto& dy, std::size_t t) {
      whitened += form(of_gradients, row_of(dy, t));
      for (const double value : row_of(dy, t)) size += value * value;
      whitened_inputs += form(of_inputs, row_of(x, t, mean));
    });
    double sum_s = 0.0;
    Matrix<double> s_xxt(layer.in, layer.in), r_dydyt(layer.out, layer.out);
    for_tokens(traces.size(), [&](const auto& x, const auto& dy, std::size_t t) {
      const double s = form(of_gradients, row_of(dy, t)) * size / whitened / double(layer.out);
      sum_s += s;
      add_outer(s_xxt, s, row_of(x, t));
      add_outer(r_dydyt, form(of_inputs, row_of(x, t, mean)) * kFirst / whitened_inputs, row_of(dy, t));
    });
    EXPECT_TRUE(test::near(layer.sum_s, sum_s, {.rel = 1e-4}));
    EXPECT_TRUE(test::relative_error_within(widened(layer.sum_s_xxt), s_xxt.values(), 1e-4));
    EXPECT_TRUE(test::relative_error_within(widened(layer.sum_dydyt), r_dydyt.values(), 1e-4));
    EXPECT_FALSE(test::relative_error_within(widened(layer.sum_s_xxt), widened(other.sum_s_xxt), 0.02));
    EXPECT_FALSE(test::relative_error_within(widened(layer.sum_dydyt), widened(other.sum_dydyt), 0.02));
    EXPECT_TRUE(test::same_bits(layer.sum_xxt.values(), other.sum_xxt.values()));
  }
}

TEST(CalibrateRun, SharedInputsAreLinked) {
  const ToyCalibration toy("llama");
  const auto file = toy.run(toy.job("calib.h5"));
  const std::string block = "model.layers.1.";
  EXPECT_EQ(file->layer(block + "self_attn.q_proj").input_of, "");
  EXPECT_EQ(file->layer(block + "self_attn.k_proj").input_of, block + "self_attn.q_proj");
  EXPECT_EQ(file->layer(block + "self_attn.v_proj").input_of, block + "self_attn.q_proj");
  EXPECT_EQ(file->layer(block + "mlp.up_proj").input_of, block + "mlp.gate_proj");
  EXPECT_EQ(file->layer(block + "mlp.down_proj").input_of, "");
}

TEST(CalibrateRun, CollectsOnlyWhatIsAskedFor) {
  const ToyCalibration toy("llama");
  for (const char* set : {"activations", "fisher", "hessian", "guided-hessian", "output-hessian", "activations,hessian",
                          "fisher,output-hessian"}) {
    const auto file = toy.run(toy.job(set, parse_statistic_set(set)));
    for (const LayerInfo& info : file->layers()) EXPECT_EQ(to_text(file->read(info.module).holds()), set);
  }
}

TEST(CalibrateRun, TheHeadIsCollectedWithoutGradientsToo) {
  const ToyCalibration toy("gpt2");
  CalibrationJob with = toy.job("with.h5"), without = toy.job("without.h5", {.activations = true});
  with.settings.head = without.settings.head = true;
  EXPECT_EQ(toy.run(with)->read("lm_head").sum_x2, toy.run(without)->read("lm_head").sum_x2);
}

TEST(CalibrateRun, BytesDependNeitherOnThreadsNorOnMemory) {
  const ToyCalibration toy("llama", kBatchWindows + 3);
  const auto bytes = [&](const char* name, std::size_t threads, bool files) {
    set_thread_count(threads);
    CalibrationJob job = toy.job(name);
    job.settings.head = true;
    job.settings.guide = Guide::kWhitened;
    if (files) job.memory_bytes = memory_that_forces_files(job);
    EXPECT_EQ(plan_job(job).residuals_on_disk, files);
    calibrate(job);
    set_thread_count(0);
    EXPECT_FALSE(std::filesystem::exists(toy.dir / fmt::format("{}.work", name)));
    return test::read_file(job.output);
  };
  const std::string first = bytes("a", 1, false);
  EXPECT_TRUE(first == bytes("b", 3, false));
  EXPECT_TRUE(first == bytes("c", 2, true));
}

// So little memory that a block's layers take turns: output Hessians of wide layers are what fills it first. Where one
// norm feeds attention and MLP, layers that share its output do not lie side by side.
class LayersInTurns : public testing::TestWithParam<model::BlockSpec::Residual> {};
TEST_P(LayersInTurns, BytesDoNotDependOnHowManyLayersAreSummedAtOnce) {
  ToyCalibration toy("llama");
  toy.architecture = test::toy_llama({.intermediate = 300});
  for (model::BlockSpec& block : toy.architecture.blocks) {
    block.residual = GetParam();
    if (GetParam() == model::BlockSpec::Residual::kParallel) block.mlp_norm.reset();
  }
  model::connect(toy.architecture);
  const test::ToyWeights weights(toy.architecture, 7);
  toy.model = model::make_model(toy.architecture, weights);
  CalibrationJob plenty = toy.job("plenty.h5"), little = toy.job("little.h5");
  plenty.settings.head = little.settings.head = true;
  plenty.settings.guide = little.settings.guide = Guide::kWhitened;
  const auto granted = [&](std::uint64_t bytes) {
    little.memory_bytes = bytes;
    try {
      return plan_job(little).most_passes > 0;
    } catch (const InvalidArgument&) {
      return false;
    }
  };
  std::uint64_t least = 1, most = std::uint64_t{1} << 30;
  ASSERT_TRUE(granted(most));
  while (least < most) {
    const std::uint64_t middle = least + (most - least) / 2;
    granted(middle) ? most = middle : least = middle + 1;
  }
  ASSERT_TRUE(granted(most));
  EXPECT_GT(plan_job(little).most_passes, 1u);
  EXPECT_EQ(plan_job(plenty).most_passes, 1u);
  calibrate(plenty);
  calibrate(little);
  EXPECT_TRUE(test::read_file(plenty.output) == test::read_file(little.output));
}
INSTANTIATE_TEST_SUITE_P(Residuals, LayersInTurns,
                         testing::Values(model::BlockSpec::Residual::kSequential,
                                         model::BlockSpec::Residual::kParallel));

// Parts that are whole batches go through the same matrix products as in one run, so that the double sums differ by the
// order of two additions only; floats are rounded once more.
TEST(CalibrateRun, MergedPartsEqualOneRun) {
  const ToyCalibration toy("llama", kBatchWindows + 9);
  const auto part = [&](const char* name, std::size_t first, std::size_t windows) {
    CalibrationJob job = toy.job(name);
    job.tokens = job.tokens.subspan(first * kWindow, windows * kWindow);
    calibrate(job);
    return job.output;
  };
  const std::vector<std::filesystem::path> parts = {part("a", 0, kBatchWindows), part("b", kBatchWindows, 9)};
  merge_stats(parts, toy.dir / "merged.h5");
  const auto whole = toy.run(toy.job("whole.h5")), merged = StatsFile::open(toy.dir / "merged.h5");
  for (const LayerInfo& info : whole->layers()) {
    const LayerStats a = whole->read(info.module), b = merged->read(info.module);
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.samples, b.samples);
    EXPECT_TRUE(test::relative_error_within(b.sum_x, a.sum_x, 1e-12));
    EXPECT_TRUE(test::relative_error_within(b.sum_x2, a.sum_x2, 1e-12));
    EXPECT_TRUE(test::relative_error_within(b.sum_abs_x, a.sum_abs_x, 1e-12));
    EXPECT_TRUE(test::relative_error_within(b.sum_s_x, a.sum_s_x, 1e-12));
    EXPECT_TRUE(test::same_bits(b.min_x, a.min_x));
    EXPECT_TRUE(test::same_bits(b.max_x, a.max_x));
    EXPECT_TRUE(test::all_near(b.fisher.values(), a.fisher.values(), {.rel = 3 * 0x1p-24}));
    EXPECT_TRUE(test::relative_error_within(b.sum_xxt.values(), a.sum_xxt.values(), 3 * 0x1p-24));
    EXPECT_TRUE(test::relative_error_within(b.sum_dydyt.values(), a.sum_dydyt.values(), 3 * 0x1p-24));
  }
}

// Of a program that takes no locks. The work stays for when the name is free.
TEST(CalibrateRun, AnOutputThatAppearsMeanwhileIsNotReplaced) {
  const ToyCalibration toy("llama");
  calibrate(toy.job("undisturbed.h5"));
  CalibrationJob job = toy.job("calib.h5");
  job.progress = [&](const ProgressUpdate&) { test::write_file(job.output, "somebody else's"); };
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { calibrate(job); }, "calib.h5' exists; choose another"));
  EXPECT_TRUE(test::read_file(job.output) == "somebody else's");
  EXPECT_FALSE(std::filesystem::exists(job.output.string() + ".partial"));
  std::filesystem::remove(job.output);
  job.progress = {};
  EXPECT_EQ(calibrate(job), 0.0) << "nothing is left to do but the output";
  EXPECT_TRUE(test::read_file(job.output) == test::read_file(toy.dir / "undisturbed.h5"));
}

TEST(CalibrateRun, SaysWhichProgramMadeItAndTakesWhatAnotherMade) {
  const ToyCalibration toy("llama", 4);
  CalibrationJob first = toy.job("first.h5");
  first.tokens = first.tokens.first(2 * kWindow);
  set_program_identity("1.0 a");
  const std::string made_by = toy.run(first)->settings().program;
  set_program_identity("1.0 b");
  const double done = calibrate(first);
  extend_calibration(toy.job("extended.h5"), first.output);
  set_program_identity("");
  EXPECT_EQ(made_by, "1.0 a");
  EXPECT_EQ(done, 0.0) << "it is there";
  EXPECT_EQ(StatsFile::open(toy.dir / "extended.h5")->settings().program, "1.0 a + 1.0 b");
}

CalibrationJob first_windows(const ToyCalibration& toy, const char* name, std::size_t windows) {
  CalibrationJob job = toy.job(name);
  job.settings.head = true;
  job.settings.labels = Labels::kSampled;  // by a window's place, which a part keeps
  job.settings.guide = Guide::kWhitened;   // by the first windows
  job.tokens = job.tokens.first(windows * kWindow);
  return job;
}

TEST(CalibrateRun, PartsHaveTheBytesOfRunsAlone) {
  for (const char* family : {"llama", "gpt2"}) {
    SCOPED_TRACE(family);
    const ToyCalibration toy(family, 2 * kBatchWindows + 3);
    const auto job = [&](const char* name, std::size_t windows) { return first_windows(toy, name, windows); };
    const auto whole = job("whole", 2 * kBatchWindows + 3);
    for (const auto& alone : {job("one", kBatchWindows), job("two", 2 * kBatchWindows), whole}) calibrate(alone);
    const std::vector<CalibrationJob> parts = {job("part one", kBatchWindows), job("part two", 2 * kBatchWindows)};
    CalibrationJob with_parts = job("with parts", 2 * kBatchWindows + 3);
    with_parts.memory_bytes = memory_that_forces_files(with_parts);
    calibrate(with_parts, parts);
    EXPECT_TRUE(test::read_file(with_parts.output) == test::read_file(whole.output));
    EXPECT_TRUE(test::read_file(parts[0].output) == test::read_file(toy.dir / "one"));
    EXPECT_TRUE(test::read_file(parts[1].output) == test::read_file(toy.dir / "two"));
    EXPECT_FALSE(std::filesystem::exists(toy.dir / "part one.work"));
  }
}

TEST(CalibrateRun, WhatIsNoPartIsRefused) {
  const ToyCalibration toy("llama", kBatchWindows + 3);
  const auto refused = [&](auto change, auto... words) {
    CalibrationJob whole = first_windows(toy, "whole", kBatchWindows + 3);
    CalibrationJob part = first_windows(toy, "part", kBatchWindows);
    change(whole, part);
    return test::throws_with<InvalidArgument>([&] { calibrate(whole, {&part, 1}); }, words...);
  };
  using Job = CalibrationJob;
  EXPECT_TRUE(refused([](Job&, Job& part) { part.tokens = part.tokens.first(5 * kWindow); }, "batch of 128"));
  EXPECT_TRUE(refused([](Job& whole, Job&) { whole.tokens = whole.tokens.first(kBatchWindows * kWindow); }, "of 128"));
  EXPECT_TRUE(refused([](Job& whole, Job& part) { part.tokens = whole.tokens.last(part.tokens.size()); }, "windows"));
  EXPECT_TRUE(refused([](Job&, Job& part) { part.settings.seeds = {1}; }, "seeds"));
  const auto centred = [](Job& whole, Job& part) {
    for (Job* job : {&whole, &part}) job->settings.head = false, job->centre = Centre::kOwn;
  };
  EXPECT_TRUE(refused(centred, "own means"));
  EXPECT_FALSE(std::filesystem::exists(toy.dir / "whole.work"));
}

TEST(CalibrateRun, PartsCentredWithTheirOwnMeansDoNotMerge) {
  const ToyCalibration toy("gpt2");
  CalibrationJob job = toy.job("calib.h5", {.activations = true, .fisher = true});
  job.centre = Centre::kOwn;
  calibrate(job);
  const std::vector<std::filesystem::path> twice = {job.output, job.output};
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { merge_stats(twice, toy.dir / "merged.h5"); }, "own windows"));
}

// A job whose means are those of own.h5, which is made with its own ones.
CalibrationJob centred_by_a_file(const ToyCalibration& toy) {
  CalibrationJob own = toy.job("own.h5", {.activations = true, .fisher = true}), filed = own;
  own.centre = Centre::kOwn;
  filed.output = toy.dir / "filed.h5";
  filed.centre = Centre::kFile;
  filed.means = toy.run(own);
  return filed;
}

TEST(CalibrateRun, MeansOfAFileCentreLikeTheOwnOnes) {
  const ToyCalibration toy("gpt2");
  CalibrationJob filed = centred_by_a_file(toy);
  const auto file = toy.run(filed);
  for (const LayerInfo& info : file->layers())
    EXPECT_TRUE(
        test::same_bits(file->read(info.module).fisher.values(), filed.means->read(info.module).fisher.values()));
  filed.settings.model_hash = "another";
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { calibrate(filed); }, "own.h5", "another model"));
}

// More experts than tokens: some have no mean to centre with, and no gradient that needs one.
model::Architecture mixture_of(unsigned experts) {
  return model::parse_architecture(
      fmt::format(R"({{"model_type": "mixtral", "vocab_size": 50, "hidden_size": 8, "num_hidden_layers": 1,
          "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 8, "num_local_experts": {},
          "num_experts_per_tok": 1, "hidden_act": "silu", "max_position_embeddings": 64}})",
                  experts),
      "config");
}

TEST(CalibrateRun, CentresMixturesWithExpertsThatNoTokenChose) {
  ToyCalibration toy("llama", 2);
  toy.architecture = mixture_of(40);
  const test::ToyWeights weights(toy.architecture, 7);
  toy.model = model::make_model(toy.architecture, weights);
  CalibrationJob filed = centred_by_a_file(toy);
  const auto file = toy.run(filed);
  std::size_t without = 0;
  for (const LayerInfo& info : file->layers()) {
    const LayerStats layer = filed.means->read(info.module);
    EXPECT_TRUE(test::same_bits(file->read(info.module).fisher.values(), layer.fisher.values()));
    if (info.tokens > 0) continue;
    ++without;
    EXPECT_EQ(widened(layer.fisher), std::vector<double>(info.out * info.in)) << info.module;
  }
  EXPECT_GE(without, 3u * (40u - 2u * kWindow));
}

TEST(CalibrateRun, WeighsMixturesWithExpertsThatFewTokensChose) {
  ToyCalibration toy("llama", kGuideWindows + 1);
  toy.architecture = mixture_of(200);
  const test::ToyWeights weights(toy.architecture, 7);
  toy.model = model::make_model(toy.architecture, weights);
  CalibrationJob whitened = toy.job("whitened.h5"), plain = toy.job("plain.h5");
  whitened.settings.guide = Guide::kWhitened;
  const auto file = toy.run(whitened), plainly = toy.run(plain);
  std::size_t none = 0, some = 0;
  for (const LayerInfo& info : file->layers()) {
    const LayerStats layer = file->read(info.module), other = plainly->read(info.module);
    EXPECT_EQ(layer.sum_s > 0.0, other.sum_s > 0.0) << info.module;
    (info.tokens > 0 ? some : none) += 1;
    EXPECT_LE(layer.sum_s, 3.0 * other.sum_s) << info.module;
  }
  EXPECT_GT(none, 0u);
  EXPECT_GT(some, 0u);
}

TEST(CalibrateRun, RefusesAWhitenedGuideOfNothing) {
  const ToyCalibration toy("llama");
  CalibrationJob job = toy.job("calib.h5", {.activations = true, .fisher = true});
  job.settings.guide = Guide::kWhitened;
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { calibrate(job); }, "guide", "not collected"));
}

// The metric's run comes before, under the names of the same stages.
TEST(CalibrateRun, ProgressNeverGoesBack) {
  const ToyCalibration toy("llama");
  CalibrationJob job = toy.job("calib.h5");
  job.settings.guide = Guide::kWhitened;
  std::vector<double> done;
  job.progress = [&](const ProgressUpdate& update) { done.push_back(update.done / update.total); };
  calibrate(job);
  ASSERT_FALSE(done.empty());
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_LE(done.back(), 1.0);
  EXPECT_GT(done.back(), 0.99);
}

TEST(CalibrateRun, SampledLabelsFollowTheSeed) {
  const ToyCalibration toy("llama");
  const auto fisher = [&](const char* name, Labels labels, std::uint64_t seed) {
    CalibrationJob job = toy.job(name, {.fisher = true});
    job.settings.labels = labels;
    job.settings.seeds = {seed};
    return widened(toy.run(job)->read("model.layers.0.mlp.down_proj").fisher);
  };
  const auto data = fisher("a", Labels::kData, 1), one = fisher("b", Labels::kSampled, 1);
  EXPECT_EQ(one, fisher("c", Labels::kSampled, 1));
  EXPECT_NE(one, fisher("d", Labels::kSampled, 2));
  EXPECT_NE(one, data);
}

TEST(CalibrateRun, RefusesSampledLabelsWhereNoGradientIsCollected) {
  const ToyCalibration toy("llama");
  CalibrationJob job = toy.job("a", {.activations = true, .hessian = true});
  job.settings.labels = Labels::kSampled;
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { toy.run(job); }, "labels concern gradients"));
  EXPECT_FALSE(std::filesystem::exists(job.output));
}

// The metric of output Hessians alone is made of inputs, without gradients: nothing there has labels.
TEST(CalibrateRun, SampledLabelsGoWithWhitenedOutputHessiansAlone) {
  const ToyCalibration toy("llama");
  CalibrationJob job = toy.job("a", {.output_hessian = true});
  job.settings.labels = Labels::kSampled;
  job.settings.guide = Guide::kWhitened;
  const auto sampled = widened(toy.run(job)->read("model.layers.0.mlp.down_proj").sum_dydyt);
  job.settings.labels = Labels::kData;
  job.output = toy.dir / "b";
  EXPECT_NE(sampled, widened(toy.run(job)->read("model.layers.0.mlp.down_proj").sum_dydyt));
}

TEST(CalibrateRun, AnExtensionThatWasKilledAtItsEndIsTidiedUp) {
  const ToyCalibration toy("llama", kBatchWindows + 2);
  CalibrationJob base = toy.job("base", {.fisher = true}), job = toy.job("out", {.fisher = true});
  base.tokens = base.tokens.first(kBatchWindows * kWindow);
  calibrate(base);
  extend_calibration(job, base.output);
  const std::string whole = test::read_file(job.output);
  const CalibrationJob added = added_windows(job, base.output);
  calibrate(added);  // as a run leaves it that is killed once the output has its name
  extend_calibration(job, base.output);
  EXPECT_FALSE(std::filesystem::exists(added.output));
  EXPECT_TRUE(test::read_file(job.output) == whole);
  std::filesystem::copy(base.output, added.output);  // not ours
  extend_calibration(job, base.output);
  EXPECT_TRUE(std::filesystem::exists(added.output));
  test::write_file(added.output, "anything");
  EXPECT_NO_THROW(extend_calibration(job, base.output));
  EXPECT_EQ(test::read_file(added.output), "anything");
  std::filesystem::remove(base.output);
  EXPECT_NO_THROW(extend_calibration(job, base.output)) << "there is nothing to do";
}

// Two members of a team, each a thread of this process.
class Pair {
 public:
  class Member final : public Team {
   public:
    Member(Pair& pair, std::size_t rank) : pair_(pair), rank_(rank) {}
    std::size_t size() const override { return 2; }
    std::size_t rank() const override { return rank_; }
    void sum(std::span<double> values) override {
      pair_.meet(rank_, values, [](double a, double b) { return a + b; });
    }
    void min(std::span<float> values) override {
      pair_.meet(rank_, values, [](double a, double b) { return std::min(a, b); });
    }
    void max(std::span<float> values) override {
      pair_.meet(rank_, values, [](double a, double b) { return std::max(a, b); });
    }
    bool all(bool value) override {
      double both[] = {value ? 1.0 : 0.0};
      pair_.meet(rank_, std::span<double>(both), [](double a, double b) { return std::min(a, b); });
      return both[0] == 1.0;
    }

   private:
    Pair& pair_;
    std::size_t rank_;
  };

  template <class T, class Join>
  void meet(std::size_t rank, std::span<T> values, const Join& join) {
    told_[rank].assign(values.begin(), values.end());
    barrier_.arrive_and_wait();
    EXPECT_EQ(told_[0].size(), told_[1].size());
    for (std::size_t i = 0; i < std::min(told_[0].size(), told_[1].size()); ++i)
      values[i] = static_cast<T>(join(told_[0][i], told_[1][i]));
    barrier_.arrive_and_wait();
  }

 private:
  std::array<std::vector<double>, 2> told_;
  std::barrier<> barrier_{2};
};

// The errors of both, "" where there was none; `threads` of each.
std::array<std::string, 2> errors_of(const std::array<CalibrationJob, 2>& jobs, std::array<std::size_t, 2> threads) {
  Pair pair;
  std::array<std::string, 2> errors;
  const auto work = [&](std::size_t rank) {
    Pair::Member member(pair, rank);
    CalibrationJob job = jobs[rank];
    job.team = &member;
    const ThreadTeam team(threads[rank]);
    try {
      calibrate(job);
    } catch (const Error& error) {
      errors[rank] = error.what();
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  return errors;
}

// A stale copy of a model or a text on one machine would go unseen into everybody's sums.
TEST(CalibrateTeam, MembersThatDoSomethingElseAreRefusedByName) {
  const ToyCalibration toy("llama"), another("llama");  // a model is one thread's
  const CalibrationJob job = toy.job("out");
  const auto beside = [&](auto change) {
    CalibrationJob other = another.job("out");
    other.output = job.output;
    change(other);
    return errors_of({job, other}, {1, 1});
  };
  std::vector<TokenId> tokens = toy.tokens;
  tokens.back() ^= 1;
  for (const std::string& error : beside([&](CalibrationJob& j) { j.tokens = tokens; }))
    EXPECT_THAT(error, testing::AllOf(testing::HasSubstr("do not do the same"), testing::HasSubstr("windows_hash")));
  for (const std::string& error : beside([](CalibrationJob& j) { j.settings.model_hash = "stale"; }))
    EXPECT_THAT(error, testing::HasSubstr("model_hash"));
  EXPECT_FALSE(std::filesystem::exists(job.output));
  EXPECT_THAT(beside([](CalibrationJob&) {}), testing::Each(testing::IsEmpty()));
  EXPECT_TRUE(std::filesystem::exists(job.output));
}

// A limit that the members agree on must not be less than what a block just takes.
TEST(CalibrateTeam, MembersWithPlentyOfMemoryWalkEachBlockOnce) {
  const ToyCalibration toy("llama", 6), another("llama", 6);
  const auto updates_of = [&](const char* name, bool together) {
    CalibrationJob job = toy.job(name), other = another.job(name);
    other.output = job.output;
    std::size_t updates = 0;
    job.progress = [&](const ProgressUpdate&) { ++updates; };
    if (together)
      EXPECT_THAT(errors_of({job, other}, {1, 1}), testing::Each(testing::IsEmpty()));
    else
      calibrate(job);
    return updates;
  };
  EXPECT_EQ(updates_of("together", true), updates_of("alone", false)) << "one batch each, a walk at a time";
}

// --memory holds of each machine, whose threads need room too: all sum the same layers at once for all that.
TEST(CalibrateTeam, MembersOfOtherThreadCountsSumTheSameLayersAtOnce) {
  const ToyCalibration toy("llama", 6), other("llama", 6);
  CalibrationJob job = toy.job("least");
  job.memory_bytes = ~std::uint64_t{0};
  const CalibrationPlan most = plan_job(job);
  CalibrationJob tight = job;
  tight.memory_bytes = most.memory_bytes - most.accumulator_bytes / 2;  // a block at a time no more
  ASSERT_GT(plan_job(tight).most_passes, 1u);
  CalibrationJob beside = other.job("least");
  beside.memory_bytes = job.memory_bytes;
  beside.output = job.output;
  EXPECT_THAT(errors_of({tight, beside}, {1, 2}), testing::Each(testing::IsEmpty()));
  job.output = beside.output = toy.dir / "plenty";
  EXPECT_THAT(errors_of({job, beside}, {1, 1}), testing::Each(testing::IsEmpty()));
  EXPECT_TRUE(test::read_file(toy.dir / "least") == test::read_file(toy.dir / "plenty"));
}

// Labels belong to places in the run: the first windows get the same ones whatever follows, in other batches too.
TEST(CalibrateRun, SampledLabelsDoNotDependOnBatches) {
  const ToyCalibration toy("gpt2", kBatchWindows + 2);
  const auto collect = [&](const char* name, std::size_t windows) {
    CalibrationJob job = toy.job(name, {.fisher = true});
    job.settings.labels = Labels::kSampled;
    job.tokens = job.tokens.first(windows * kWindow);
    return toy.run(job)->read("h.1.mlp.c_proj").fisher;
  };
  const Matrix<float> most = collect("a", kBatchWindows), all = collect("b", kBatchWindows + 2);
  // Two more windows only add squares; other labels would change elements in both directions. One rounding each.
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_GE(all.data()[i], most.data()[i]);
}

// Were the draws of the second batch those of the first, equal windows would only double its sums.
TEST(CalibrateRun, EveryPlaceInTheRunDrawsItsOwnLabels) {
  ToyCalibration toy("gpt2", 2 * kBatchWindows);
  for (std::size_t t = kWindow; t < toy.tokens.size(); ++t) toy.tokens[t] = toy.tokens[t - kWindow];
  const auto collect = [&](const char* name, std::size_t windows) {
    CalibrationJob job = toy.job(name, {.fisher = true});
    job.settings.labels = Labels::kSampled;
    job.tokens = job.tokens.first(windows * kWindow);
    return widened(toy.run(job)->read("h.1.mlp.c_proj").fisher);
  };
  std::vector<double> doubled = collect("a", kBatchWindows);
  for (double& value : doubled) value *= 2;
  EXPECT_FALSE(test::relative_error_within(collect("b", 2 * kBatchWindows), doubled, 1e-3));
}

// Sums are made in tiles of 256 columns, those below the diagonal from the ones above.
TEST(CalibrateRun, HessiansWiderThanATileAreSymmetric) {
  ToyCalibration toy("llama");
  toy.architecture = test::toy_llama({.intermediate = 300});
  const test::ToyWeights weights(toy.architecture, 7);
  toy.model = model::make_model(toy.architecture, weights);
  const LayerStats layer = toy.run(toy.job("calib.h5"))->read("model.layers.0.mlp.down_proj");
  for (std::size_t i = 0; i < 300; ++i) {
    EXPECT_GT(layer.sum_xxt(i, i), 0.0f);
    for (std::size_t j = 0; j < i; ++j) {
      ASSERT_EQ(layer.sum_xxt(i, j), layer.sum_xxt(j, i));
      ASSERT_EQ(layer.sum_s_xxt(i, j), layer.sum_s_xxt(j, i));
    }
  }
}

/// Weights with one number replaced.
struct BrokenWeights : test::ToyWeights {
  BrokenWeights(const model::Architecture& architecture, std::string tensor, std::size_t index, float value)
      : ToyWeights(architecture, 7), tensor_(std::move(tensor)), index_(index), value_(value) {}
  std::vector<float> vector(const model::Stored& stored) const override {
    std::vector<float> values = ToyWeights::vector(stored);
    if (stored.tensor == tensor_) values[index_] = value_;
    return values;
  }
  std::string tensor_;
  std::size_t index_;
  float value_;
};

TEST(CalibrateRun, ActivationsThatAreNotFiniteAreNamedAndNothingIsWritten) {
  const ToyCalibration toy("gpt2");
  const BrokenWeights broken(toy.architecture, "h.1.ln_2.bias", 5, std::numeric_limits<float>::quiet_NaN());
  const auto model = model::make_model(toy.architecture, broken);
  const CalibrationJob good = toy.job("calib.h5");
  const CalibrationJob job{.model = *model, .tokens = good.tokens, .settings = good.settings, .output = good.output};
  EXPECT_TRUE(test::throws_with<NumericalError>([&] { calibrate(job); }, "activations entering 'h.1.mlp.c_fc'", "nan",
                                                "window 0, position 0, channel 5"));
  EXPECT_FALSE(std::filesystem::exists(job.output));
  EXPECT_FALSE(std::filesystem::exists(toy.dir / "calib.h5.partial"));
}

/// The embedding of the last token id is NaN.
struct BrokenEmbedding : test::ToyWeights {
  using ToyWeights::ToyWeights;
  struct Rows final : WeightSource {
    explicit Rows(std::shared_ptr<const WeightSource> whole) : source(std::move(whole)) {}
    std::size_t rows() const override { return source->rows(); }
    std::size_t cols() const override { return source->cols(); }
    void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
      source->decode_rows(begin, end, destination);
      if (end == rows()) destination[(end - begin) * cols() - 1] = std::numeric_limits<float>::quiet_NaN();
    }
    std::shared_ptr<const WeightSource> source;
  };
  std::shared_ptr<const WeightSource> matrix(const model::Parameter& parameter) const override {
    auto source = ToyWeights::matrix(parameter);
    if (parameter.role != model::Role::kEmbedding) return source;
    return std::make_shared<Rows>(std::move(source));
  }
};

TEST(CalibrateRun, TheWindowOfABadActivationIsNamedInLaterBatchesToo) {
  ToyCalibration toy("gpt2", kBatchWindows + 3);
  const auto last = static_cast<TokenId>(toy.architecture.vocabulary - 1);
  for (TokenId& token : toy.tokens) token = std::min(token, last - 1);
  toy.tokens[(kBatchWindows + 1) * kWindow + 9] = last;
  const BrokenEmbedding broken(toy.architecture, 7);
  toy.model = model::make_model(toy.architecture, broken);
  EXPECT_TRUE(test::throws_with<NumericalError>([&] { calibrate(toy.job("calib.h5")); }, "entering 'h.0.attn.c_attn.q'",
                                                "window 129, position 9"));
}

TEST(CalibrateRun, NonFiniteOutputsOfTheLastBlockAreNamed) {
  const ToyCalibration toy("gpt2");
  const BrokenWeights broken(toy.architecture, "h.1.mlp.c_proj.bias", 2, std::numeric_limits<float>::infinity());
  const auto model = model::make_model(toy.architecture, broken);
  const CalibrationJob good = toy.job("calib.h5");
  const CalibrationJob job{.model = *model, .tokens = good.tokens, .settings = good.settings, .output = good.output};
  EXPECT_TRUE(
      test::throws_with<NumericalError>([&] { calibrate(job); }, "leaving the last block", "window 0", "channel 2"));
  EXPECT_FALSE(std::filesystem::exists(job.output));
}

// Finite forward, but gradients beyond float on the way back: a huge gain in the last norm.
TEST(CalibrateRun, GradientsThatAreNotFiniteAreNamed) {
  const ToyCalibration toy("llama");
  const BrokenWeights broken(toy.architecture, "model.layers.0.post_attention_layernorm.weight", 3, 3e38f);
  const auto model = model::make_model(toy.architecture, broken);
  const CalibrationJob good = toy.job("calib.h5", {.fisher = true});
  const CalibrationJob job{.model = *model, .tokens = good.tokens, .settings = good.settings, .output = good.output};
  EXPECT_TRUE(test::throws_with<NumericalError>([&] { calibrate(job); }, "calibration:", "'model.layers.0.mlp"));
  EXPECT_FALSE(std::filesystem::exists(job.output));
}

TEST(CalibrateRun, DeadChannelsAreFine) {
  const ToyCalibration toy("llama");
  const BrokenWeights dead(toy.architecture, "model.layers.1.input_layernorm.weight", 4, 0.0f);
  const auto model = model::make_model(toy.architecture, dead);
  const CalibrationJob good = toy.job("calib.h5");
  const CalibrationJob job{.model = *model, .tokens = good.tokens, .settings = good.settings, .output = good.output};
  const LayerStats layer = toy.run(job)->read("model.layers.1.self_attn.k_proj");
  EXPECT_EQ(dead_channels(layer), std::vector<std::size_t>{4});
  EXPECT_EQ(layer.fisher(0, 4), 0.0f);
}

TEST(CalibrateRun, ImpossibleJobsAreRefused) {
  const ToyCalibration toy("gpt2");
  const auto refused = [&](auto change, auto... words) {
    CalibrationJob job = toy.job("calib.h5");
    change(job);
    return test::throws_with<InvalidArgument>([&] { calibrate(job); }, words...);
  };
  EXPECT_TRUE(refused([](CalibrationJob& j) { j.tokens = j.tokens.first(17); }, "17 tokens", "windows of 16"));
  EXPECT_TRUE(refused([](CalibrationJob& j) { j.tokens = {}; }, "0 tokens"));
  EXPECT_TRUE(refused([](CalibrationJob& j) { j.settings.window_tokens = 1; }, "2 tokens or more"));
  const std::vector<TokenId> many(4096, 1);
  EXPECT_TRUE(refused([&](CalibrationJob& j) { j.tokens = many, j.settings.window_tokens = many.size(); },
                      "windows of 4096", "learned", "--length"));
  EXPECT_TRUE(refused([](CalibrationJob& j) { j.memory_bytes = 1 << 20; }, "--memory grants 1 MB"));
  EXPECT_TRUE(refused([](CalibrationJob& j) { j.centre = Centre::kFile; }, "no file of means"));
  EXPECT_TRUE(refused([](CalibrationJob& j) { j.centre = Centre::kOwn, j.settings.head = true; }, "head"));
  EXPECT_TRUE(refused([](CalibrationJob& j) { j.centre = Centre::kOwn, j.settings.collected = {.hessian = true}; },
                      "centring", "`fisher`"));
  const std::vector<TokenId> unknown(kWindow, 50);
  EXPECT_TRUE(refused([&](CalibrationJob& j) { j.tokens = unknown; }, "50"));
}

TEST(CalibrateRun, AnOutputWithoutANameIsRefusedBeforeTheRun) {
  const ToyCalibration toy("llama");
  CalibrationJob job = toy.job("calib.h5");
  job.output.clear();
  bool has_begun = false;
  job.progress = [&](const ProgressUpdate&) { has_begun = true; };
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { calibrate(job); }, "output: expected a path, got ''"));
  EXPECT_FALSE(has_begun);
}

}  // namespace
}  // namespace nibble::calib

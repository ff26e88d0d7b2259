// The gradients that tuning follows, end to end, against differences of the divergence.
#include "quant/job/network/tuned_network.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/matrix/dtype.h"
#include "core/random.h"
#include "quant/job/plan/job_reporter.h"
#include "quant/job/shards/make_shards.h"
#include "tests/model/transformer/gradients_of.h"
#include "tests/quant/job/calibrated_models.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"

namespace nibble::quant {
namespace {

using test::TempDir;

Matrix<float> logits_of(const model::Model& model, const model::Batch& batch) {
  std::vector<std::size_t> rows(batch.tokens.size());
  for (std::size_t r = 0; r < rows.size(); ++r) rows[r] = r;
  Matrix<float> all(rows.size(), model.architecture().vocabulary);
  model.forward(batch, rows, [&](std::span<const std::size_t> chunk, MatrixView<const float> logits) {
    for (std::size_t i = 0; i < chunk.size(); ++i)
      std::copy_n(logits.row(i).data(), logits.cols(), all.row(chunk[i]).data());
  });
  return all;
}

std::vector<double> softmax(std::span<const float> logits) {
  double sum = 0.0;
  std::vector<double> p;
  for (const float x : logits) p.push_back(std::exp(static_cast<double>(x))), sum += p.back();
  for (double& x : p) x /= sum;
  return p;
}

// Mean KL(teacher ‖ student) over all rows.
double divergence(const Matrix<float>& teacher, const Matrix<float>& student) {
  double sum = 0.0;
  for (std::size_t r = 0; r < teacher.rows(); ++r) {
    const auto p = softmax(teacher.row(r)), q = softmax(student.row(r));
    for (std::size_t k = 0; k < p.size(); ++k) sum += p[k] * std::log(p[k] / q[k]);
  }
  return sum / static_cast<double>(teacher.rows());
}

void expect_gradients_of_differences(bool gpt2, const std::string& yaml) {
  SCOPED_TRACE(yaml);
  const TempDir dir;
  (gpt2 ? test::tiny_gpt2() : test::tiny_llama()).write(dir / "model");
  test::write_calibration(dir / "calib.h5", dir / "model");
  const auto checkpoint = model::Checkpoint::open(dir / "model");
  const model::Architecture architecture = test::config_of(dir / "model");
  const Plan plan = make_plan(checkpoint, architecture, Recipe::parse(yaml, "recipe"));
  const std::vector<std::filesystem::path> files{dir / "calib.h5"};
  const Calibration calibration(files, *checkpoint);
  JobReporter reporter({}, {});
  std::vector<ShardJob> jobs;
  for (const QuantizeItem& item : plan.items) jobs.push_back({&item, dir / (item.identity.name + ".safetensors")});
  const std::vector<Shard> shards = make_shards(jobs, calibration, reporter, 1 << 30);
  TunedNetwork network(checkpoint, architecture, plan, shards, {});

  test::LossInput<float> input;
  Random random(31);
  for (int i = 0; i < 36; ++i) input.tokens.push_back(static_cast<TokenId>(random.below(40)));
  input.starts = {0, 18, 36};
  const Matrix<float> teacher =
      logits_of(*model::make_model(architecture, *model::make_float_provider(checkpoint)), input.batch());

  const model::Model& model = network.model();
  const auto boundaries = test::boundary_activations(model, input.batch(), test::embedded(model, input.batch()));
  Matrix<float> dx(36, architecture.hidden);
  std::vector<std::size_t> rows(36);
  for (std::size_t r = 0; r < rows.size(); ++r) rows[r] = r;
  model.backward_logits(
      boundaries.back(), rows,
      [&](std::span<const std::size_t> chunk, MatrixView<float> logits) {
        for (std::size_t i = 0; i < chunk.size(); ++i) {
          const auto q = softmax(logits.row(i)), p = softmax(teacher.row(chunk[i]));
          for (std::size_t k = 0; k < q.size(); ++k) logits(i, k) = static_cast<float>((q[k] - p[k]) / 36.0);
        }
      },
      dx, nullptr);
  for (std::size_t block = architecture.blocks.size(); block-- > 0;)
    model.backward_block(block, input.batch(), boundaries[block], dx, &network.hooks());

  const std::vector<double> gradient = network.gradient();
  const auto start = network.state();
  ASSERT_EQ(gradient.size(), start.size());
  double most = 0.0;
  for (const double g : gradient) most = std::max(most, std::abs(g));
  // Every 17th value: changed by 1/64 of itself and more, so that rounding it to float16 (2^-11 of it) is allowed for
  // by the difference of what is stored; the second difference that central differences leave is 1e-3 of the first.
  for (std::size_t i = 0; i < start.size(); i += 17) {
    double loss[2], value[2];
    for (const int side : {0, 1}) {
      auto state = start;
      const float by = std::max(std::abs(start[i]) / 64.0f, 0.002f);
      state[i] = round_to_f16(start[i] + (side == 0 ? -by : by));
      value[side] = static_cast<double>(state[i]);
      network.restore(state);
      loss[side] = divergence(teacher, logits_of(network.model(), input.batch()));
    }
    // Logits are floats of some ulp: 1e-7 nats of each loss, over steps of 0.004 and more.
    EXPECT_TRUE(
        test::near(gradient[i], (loss[1] - loss[0]) / (value[1] - value[0]), {.abs = 5e-5 + 2e-3 * most, .rel = 0.02}))
        << i << " of " << start.size();
  }
}

TEST(TunedNetwork, GradientsOfPalettesScalesAndBiasesAreThoseOfDifferences) {
  expect_gradients_of_differences(true, "defaults: {bits: 3, scaling: std, shifting: true}");
  expect_gradients_of_differences(false, "defaults: {bits: 2, granularity: channel, shifting: true}");
  expect_gradients_of_differences(false, "defaults: {format: int4-block, group_size: 16, shifting: true}");
  expect_gradients_of_differences(
      true, "defaults: {format: uniform, bits: 3, zero_point: true, solver: gptq, input_scaling: none}");
}

// A mixture's experts have a gradient only where a token chose them.
TEST(TunedNetwork, LeavesExpertsThatNoTokenChose) {
  const TempDir dir;
  test::tiny_mixtral().write(dir / "model");
  test::write_calibration(dir / "calib.h5", dir / "model");
  const auto checkpoint = model::Checkpoint::open(dir / "model");
  const model::Architecture architecture = test::config_of(dir / "model");
  const Plan plan =
      make_plan(checkpoint, architecture, Recipe::parse("defaults: {bits: 3, scaling: std, shifting: true}", "recipe"));
  const std::vector<std::filesystem::path> files{dir / "calib.h5"};
  JobReporter reporter({}, {});
  std::vector<ShardJob> jobs;
  for (const QuantizeItem& item : plan.items) jobs.push_back({&item, dir / (item.identity.name + ".safetensors")});
  const auto shards = make_shards(jobs, Calibration(files, *checkpoint), reporter, 1 << 30);
  Tuning tuning;
  tuning.codes = true;
  TunedNetwork network(checkpoint, architecture, plan, shards, tuning);
  const auto parts_of = [&](std::string_view end, std::string_view suffix) {
    std::string bytes;
    for (std::size_t i = 0; i < plan.items.size(); ++i) {
      if (!plan.items[i].identity.name.ends_with(end)) continue;
      const TensorPart& part = *network.tensor(i)->find(suffix);
      bytes.append(reinterpret_cast<const char*>(part.bytes.data()), part.bytes.size());
    }
    return bytes;
  };
  const auto step_on = [&](std::uint32_t first_token) {  // of 12
    test::LossInput<float> input;
    input.starts = {0, 12};
    input.targets.assign(12, 3);
    for (std::uint32_t t = 0; t < 12; ++t) input.tokens.push_back(first_token + t);
    input.weights.assign(12, 1.0f / 12);
    test::run_backward(network.model(), input, network.hooks());
    network.step(0.01, 1.0);
  };
  constexpr std::string_view kRare = "experts.3.w2", kOther = "self_attn.v_proj";

  const auto first = parts_of(kRare, "scale");
  step_on(20);
  EXPECT_EQ(parts_of(kRare, "scale"), first) << "no gradient yet";

  step_on(test::kRareToken);
  EXPECT_NE(parts_of(kRare, "scale"), first);
  const auto codes = parts_of(kRare, "codes"), others = parts_of(kOther, "codes");
  step_on(20);
  EXPECT_EQ(parts_of(kRare, "codes"), codes) << "moved by the gradient of the step before";
  EXPECT_NE(parts_of(kOther, "codes"), others);
}

}  // namespace
}  // namespace nibble::quant

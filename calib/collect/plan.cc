#include "calib/collect/plan.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <vector>

#include "calib/collect/block_sums.h"
#include "core/error.h"
#include "core/gemm.h"
#include "core/thread_pool.h"

namespace nibble::calib {
namespace {

// A batch: enough tokens for full GEMM rate (a weight is decoded once per batch), but a limited workspace.
constexpr std::size_t kMostBatchTokens = 2048;
constexpr std::uint64_t kBatchBytes = 128u << 20;
// A group of decoded weights (32 MB), a chunk of logits (32 MB), norms, tables, generated kernels, buffers of threads.
constexpr std::uint64_t kFixedBytes = 96u << 20;

std::span<const CollectedLayer> layers_of_block(const std::vector<CollectedLayer>& layers, std::size_t block) {
  const auto begin =
      std::find_if(layers.begin(), layers.end(), [&](const CollectedLayer& l) { return l.block == block; });
  const auto end = std::find_if(begin, layers.end(), [&](const CollectedLayer& l) { return l.block != block; });
  return {begin, end};
}

// Floats per token that a batch takes: what BlockScratch says of the backward pass, and the stream and its gradient.
std::uint64_t floats_per_token(const model::Config& config) {
  const std::uint64_t into_mlp = config.family == model::Family::kGpt2 ? 1 : 2;
  return 7 * config.hidden + 4 * (config.q_width() + config.kv_width()) + (into_mlp + 2) * config.intermediate +
         config.heads;
}

// Copies that sums are made from: squares, centred or scaled inputs; and a window of the head's gradients.
std::uint64_t copied_bytes(const std::vector<CollectedLayer>& layers, const RunSettings& settings,
                           std::uint64_t batch_tokens) {
  std::uint64_t widest = 0;
  for (const CollectedLayer& layer : layers) {
    const bool head = &layer == &layers.back() && settings.head;
    const std::uint64_t tokens = head ? settings.window_tokens : batch_tokens;
    std::uint64_t width = settings.flavour == FisherFlavour::kPosition ? layer.in + layer.out : 0;
    if (settings.centre != kCentreNone || settings.collected.guided_hessian) width += layer.in;
    widest = std::max(widest, (width + (head ? layer.in + layer.out : 0)) * tokens);
  }
  return widest * sizeof(float);
}

}  // namespace

CalibrationPlan plan_calibration(const model::Config& config, const RunSettings& settings, std::uint64_t memory,
                                 std::string_view remedy) {
  const StatisticSet& what = settings.collected;
  const bool gradients = what.needs_gradients();
  const std::vector<CollectedLayer> layers = collected_layers(config, settings.head);
  const std::uint64_t tokens = settings.windows * settings.window_tokens;
  CalibrationPlan plan;
  const std::uint64_t row_bytes = floats_per_token(config) * sizeof(float);
  const std::uint64_t most_tokens = std::min<std::uint64_t>(kMostBatchTokens, kBatchBytes / row_bytes);
  plan.windows_per_batch = std::max<std::uint64_t>(1, most_tokens / std::max<std::uint64_t>(1, settings.window_tokens));

  std::uint64_t output_bytes = 0, largest_layer = 0;
  double multiplications = 0.0;  // per token
  for (std::size_t block = 0; block <= config.layers; ++block) {
    const auto of_block = layers_of_block(layers, block);
    plan.accumulator_bytes = std::max(plan.accumulator_bytes, BlockSums::bytes(of_block, what));
    for (const CollectedLayer& layer : of_block) {
      const std::uint64_t bytes = BlockSums::bytes({&layer, 1}, what) / 2;  // stored as float
      output_bytes += bytes;
      largest_layer = std::max(largest_layer, bytes);
      const double weight = static_cast<double>(layer.out) * static_cast<double>(layer.in);
      const double square = static_cast<double>(layer.in) * static_cast<double>(layer.in) / 2;
      multiplications += weight * (gradients ? 3 : 1) + (what.fisher ? weight : 0) + (what.guided_hessian ? square : 0);
      if (what.hessian && layer.input_of.empty()) multiplications += square;
    }
  }
  const double head = static_cast<double>(config.vocabulary) * static_cast<double>(config.hidden);
  if (gradients && !settings.head) multiplications += 2 * head;
  if (settings.labels == Labels::kSampled) {
    for (const model::LinearLayer& layer : model::linear_layers(config))
      multiplications += static_cast<double>(layer.out) * static_cast<double>(layer.in);
    multiplications += head;
  }
  plan.operations = 2.0 * multiplications * static_cast<double>(tokens);

  // Boundaries 0 to L, and the gradient at two of them; without gradients the boundaries before and after a block.
  const std::uint64_t matrices = gradients ? config.layers + 3 : 2;
  plan.residual_bytes = matrices * tokens * config.hidden * sizeof(float);
  const std::size_t batch_tokens = plan.windows_per_batch * settings.window_tokens;
  const std::uint64_t base = kFixedBytes + plan.accumulator_bytes + largest_layer + row_bytes * batch_tokens +
                             copied_bytes(layers, settings, batch_tokens);
  NIBBLE_REQUIRE(base <= memory, InvalidArgument,
                 "calibration: the sums of the largest block ({} MB) and one batch need {} MB, but --memory grants {} "
                 "MB; grant more or {}",
                 plan.accumulator_bytes >> 20, (base >> 20) + 1, memory >> 20, remedy);
  plan.residuals_on_disk = base + plan.residual_bytes > memory;
  plan.memory_bytes = base + (plan.residuals_on_disk ? 0 : plan.residual_bytes);
  plan.disk_bytes = 2 * output_bytes + (plan.residuals_on_disk ? plan.residual_bytes : 0);
  return plan;
}

double estimate_seconds(const CalibrationPlan& plan) {
  constexpr std::size_t kSize = 1024;
  const Matrix<float> a(kSize, kSize), b(kSize, kSize);
  Matrix<float> c(kSize, kSize);
  double seconds = 1e9;
  for (int repeat = 0; repeat < 3; ++repeat) {  // the first warms up
    const auto start = std::chrono::steady_clock::now();
    parallel_gemm<float>(Transpose::kNo, Transpose::kYes, 1.0f, a.view(), b.view(), 0.0f, c.view());
    seconds = std::min(seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  const double rate = 2.0 * kSize * kSize * kSize / seconds;
  return plan.operations / (0.6 * rate);
}

void require_disk_space(const CalibrationPlan& plan, const std::filesystem::path& output, std::uint64_t present) {
  const std::filesystem::path directory = output.has_parent_path() ? output.parent_path() : ".";
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(directory, error);
  NIBBLE_REQUIRE(!error, FormatError, "cannot see how much room '{}' has: {}", directory.string(), error.message());
  const std::uint64_t needed = plan.disk_bytes - std::min(plan.disk_bytes, present);
  NIBBLE_REQUIRE(needed <= space.available, FormatError,
                 "calibration: needs {} MB more in '{}' for the output, its shards and scratch files, but only {} MB "
                 "are free",
                 needed >> 20, directory.string(), space.available >> 20);
}

}  // namespace nibble::calib

#include "calib/collect/plan.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "calib/collect/block_sums.h"
#include "calib/collect/token_metric.h"
#include "calib/collect/work_directory.h"
#include "core/checked_math.h"
#include "core/error.h"
#include "core/files/disk_space.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/gemm.h"
#include "core/matrix/linear_op.h"

namespace nibble::calib {
namespace {

// A batch: enough tokens for full GEMM rate (a weight is decoded once per batch), but a limited workspace.
constexpr std::size_t kMostBatchTokens = 2048;
constexpr std::uint64_t kBatchBytes = 128u << 20;
// A group of decoded weights (32 MB), a chunk of logits (32 MB), norms, tables, generated kernels.
constexpr std::uint64_t kFixedBytes = 96u << 20;
// Of each thread, beside decoded weights: tiles of attention and of sums, and what the matrix library packs. Measured:
// smollm-135m's shape on 32 threads takes 7.9 MB a thread, 3.1 of which are decoded weights.
constexpr std::uint64_t kThreadBytes = 6u << 20;
// From so many operations on (half a minute to two minutes on two cores) a run that is killed should go on where it
// was. Writing the stream costs next to nothing then: of a width of 576, four bytes for 40,000 operations.
constexpr double kLongRun = 5e12;

std::span<const CollectedLayer> layers_of_block(const std::vector<CollectedLayer>& layers, std::size_t block) {
  const auto begin =
      std::find_if(layers.begin(), layers.end(), [&](const CollectedLayer& l) { return l.block == block; });
  const auto end = std::find_if(begin, layers.end(), [&](const CollectedLayer& l) { return l.block != block; });
  return {begin, end};
}

// Floats per token that a batch takes: the backward pass, and the stream and its gradient.
std::uint64_t floats_per_token(const model::Architecture& architecture) {
  return model::backward_floats_per_token(architecture) + 2 * architecture.hidden;
}

// What a layer's metric is made of and inverted in, of one layer at a time (token_metric.h).
std::uint64_t metric_bytes(const std::vector<CollectedLayer>& layers, const RunSettings& settings) {
  std::uint64_t most = 0;
  const StatisticSet what = metric_statistics(settings.collected);
  for (const CollectedLayer& layer : layers) {
    if (settings.guide == Guide::kPlain || layer.head) continue;
    const std::uint64_t inputs = what.hessian && layer.input_of.empty() ? std::uint64_t{layer.in} * layer.in : 0;
    const std::uint64_t outputs = what.output_hessian ? std::uint64_t{layer.out} * layer.out : 0;
    most = std::max(most, 4 * (inputs + outputs) + 16 * std::max(inputs, outputs));
  }
  return most;
}

// Copies that sums are made from: squares, centred, scaled or whitened ones; and a window of the head's gradients.
std::uint64_t copied_bytes(const std::vector<CollectedLayer>& layers, const RunSettings& settings,
                           std::uint64_t batch_tokens) {
  std::uint64_t widest = 0;
  for (const CollectedLayer& layer : layers) {
    const bool head = &layer == &layers.back() && settings.head;
    const std::uint64_t tokens = head ? settings.window_tokens : batch_tokens;
    std::uint64_t width = settings.flavour == FisherFlavour::kPosition ? layer.in + layer.out : 0;
    if (settings.centre != kCentreNone || settings.collected.guided_hessian) width += layer.in;
    if (settings.guide == Guide::kWhitened && !head) width += 2 * std::max(layer.in, layer.out);
    widest = std::max(widest, (width + (head ? layer.in + layer.out : 0)) * tokens);
  }
  return widest * sizeof(float);
}

// Multiplications of a token with the keys and the values that it sees on average, forward; and of a run with
// gradients: forward twice, and five such products of the way back where two go forward.
double attention_work(const model::AttentionSpec& attention, std::uint64_t window_tokens, bool gradients) {
  const std::uint64_t seen = attention.window == 0 ? window_tokens : std::min(attention.window, window_tokens);
  const double tokens = static_cast<double>(window_tokens), most = static_cast<double>(seen);
  const double average = most - most * most / (2 * tokens);
  return 2 * static_cast<double>(attention.q_width()) * average * (gradients ? 4.5 : 1.0);
}

std::uint64_t bytes_of_threads(const std::vector<CollectedLayer>& layers) {
  std::uint64_t decoded = 0;
  for (const CollectedLayer& layer : layers) decoded = std::max(decoded, decoded_bytes_per_thread(layer.in));
  return thread_count() * (decoded + kThreadBytes);
}

}  // namespace

std::vector<std::pair<std::size_t, std::size_t>> layer_groups(std::span<const CollectedLayer> layers,
                                                              const StatisticSet& what, Guide guide,
                                                              std::uint64_t limit) {
  std::map<std::string_view, std::size_t> last_of;  // of the layers that have a layer's input
  for (std::size_t i = 0; i < layers.size(); ++i)
    last_of[layers[i].input_of.empty() ? layers[i].module : layers[i].input_of] = i;
  std::vector<std::pair<std::size_t, std::size_t>> groups;
  std::uint64_t held = 0;
  for (std::size_t begin = 0; begin < layers.size();) {
    std::size_t end = begin + 1;
    for (std::size_t i = begin; i < end; ++i)
      if (layers[i].input_of.empty()) end = std::max(end, last_of.at(layers[i].module) + 1);
    const std::uint64_t bytes = BlockSums::bytes(layers.subspan(begin, end - begin), what, guide);
    if (groups.empty() || held + bytes > limit) {
      groups.emplace_back(begin, end);
      held = bytes;
    } else {
      groups.back().second = end;
      held += bytes;
    }
    begin = end;
  }
  return groups;
}

namespace {

std::uint64_t largest_group_bytes(std::span<const CollectedLayer> layers, const StatisticSet& what, Guide guide,
                                  std::uint64_t limit) {
  std::uint64_t most = 0;
  for (const auto& [begin, end] : layer_groups(layers, what, guide, limit))
    most = std::max(most, BlockSums::bytes(layers.subspan(begin, end - begin), what, guide));
  return most;
}

std::filesystem::path directory_of(const std::filesystem::path& output) {
  return output.has_parent_path() ? output.parent_path() : ".";
}

}  // namespace

std::size_t windows_per_batch(const model::Architecture& architecture, std::size_t window_tokens) {
  const std::uint64_t row_bytes = floats_per_token(architecture) * sizeof(float);
  const std::uint64_t most_tokens = std::min<std::uint64_t>(kMostBatchTokens, kBatchBytes / row_bytes);
  return std::max<std::uint64_t>(1, most_tokens / std::max<std::uint64_t>(1, window_tokens));
}

CalibrationPlan plan_calibration(const model::Architecture& architecture, const RunSettings& settings,
                                 std::uint64_t memory, const PlanContext& context) {
  const StatisticSet& what = settings.collected;
  const bool gradients = what.needs_gradients();
  const std::vector<CollectedLayer> layers = collected_layers(architecture, settings.head);
  const std::size_t blocks = architecture.blocks.size();
  const std::uint64_t tokens = settings.windows * settings.window_tokens;
  CalibrationPlan plan;
  const std::uint64_t row_bytes = floats_per_token(architecture) * sizeof(float);
  plan.windows_per_batch = windows_per_batch(architecture, settings.window_tokens);

  std::uint64_t output_bytes = 0, largest_layer = 0, whole_blocks = 0, smallest_groups = 0;
  for (std::size_t block = 0; block <= blocks; ++block) {
    const auto of_block = layers_of_block(layers, block);
    whole_blocks = std::max(whole_blocks, BlockSums::bytes(of_block, what, settings.guide));
    smallest_groups = std::max(smallest_groups, largest_group_bytes(of_block, what, settings.guide, 0));
    for (const CollectedLayer& layer : of_block) {
      const std::uint64_t bytes = BlockSums::bytes({&layer, 1}, what, Guide::kPlain) / 2;  // stored as float
      output_bytes += bytes;
      largest_layer = std::max(largest_layer, bytes);
    }
  }

  // Boundaries 0 to L, and the gradient at two of them; without gradients the boundaries before and after a block.
  const std::uint64_t matrices = gradients ? blocks + 3 : 2;
  plan.residual_bytes = matrices * tokens * architecture.hidden * sizeof(float);
  const std::size_t batch_tokens = plan.windows_per_batch * settings.window_tokens;
  const std::uint64_t of_threads = bytes_of_threads(layers);
  const std::uint64_t without_sums = kFixedBytes + of_threads + largest_layer + row_bytes * batch_tokens +
                                     copied_bytes(layers, settings, batch_tokens) + metric_bytes(layers, settings);
  NIBBLE_REQUIRE(
      without_sums + smallest_groups <= memory, InvalidArgument,
      "calibration: the sums of the largest layer ({} MB) and one batch{} need {} MB, but --memory grants {} "
      "MB; grant more or {}{}{}",
      smallest_groups >> 20, settings.guide == Guide::kPlain ? "" : ", with what tokens weigh by,",
      ((without_sums + smallest_groups) >> 20) + 1, memory >> 20,
      settings.guide == Guide::kPlain ? "" : "--guide plain, or ", context.remedy,
      of_threads > without_sums / 4 ? fmt::format(", or use fewer --threads: those take {} MB", of_threads >> 20) : "");
  plan.accumulator_limit = std::min(whole_blocks, memory - without_sums);
  std::vector<std::size_t> passes(blocks + 1, 1);
  for (std::size_t block = 0; block <= blocks; ++block) {
    const auto of_block = layers_of_block(layers, block);
    plan.accumulator_bytes =
        std::max(plan.accumulator_bytes, largest_group_bytes(of_block, what, settings.guide, plan.accumulator_limit));
    passes[block] =
        std::max<std::size_t>(1, layer_groups(of_block, what, settings.guide, plan.accumulator_limit).size());
    plan.most_passes = std::max(plan.most_passes, passes[block]);
  }

  std::uint64_t metric_file = 0;
  double multiplications = 0.0;  // per token
  for (std::size_t block = 0; block < blocks; ++block) {
    const auto& experts = architecture.blocks[block].experts;
    const double chosen =
        experts ? static_cast<double>(experts->active) / static_cast<double>(experts->experts.size()) : 1.0;
    multiplications += attention_work(architecture.blocks[block].attention, settings.window_tokens, gradients) *
                       static_cast<double>(passes[block]);
    for (const CollectedLayer& layer : layers_of_block(layers, block)) {
      const double weight = static_cast<double>(layer.out) * static_cast<double>(layer.in);
      const double square = static_cast<double>(layer.in) * static_cast<double>(layer.in) / 2;
      double work = weight * (gradients ? 3 : 1) * static_cast<double>(passes[block]);
      work += (what.fisher ? weight : 0) + (what.guided_hessian ? square : 0);
      const double outputs = static_cast<double>(layer.out) * static_cast<double>(layer.out);
      work += what.output_hessian ? outputs / 2 : 0;
      if (settings.guide == Guide::kWhitened)
        work += (what.guided_hessian ? outputs : 0) + (what.output_hessian && layer.input_of.empty() ? 2 * square : 0);
      if (what.hessian && layer.input_of.empty()) work += square;
      multiplications += work * (layer.expert ? chosen : 1.0);
    }
  }
  const double head = static_cast<double>(architecture.vocabulary) * static_cast<double>(architecture.hidden);
  if (settings.head) {
    const double square = static_cast<double>(architecture.hidden) * static_cast<double>(architecture.hidden) / 2;
    multiplications += head * (gradients ? 3 : 1) + (what.fisher ? head : 0) + (what.guided_hessian ? square : 0) +
                       (what.hessian ? square : 0);
  } else if (gradients) {
    multiplications += 2 * head;
  }
  if (settings.labels == Labels::kSampled) multiplications += model::active_linear_weights(architecture) + head;
  plan.operations = 2.0 * multiplications * static_cast<double>(tokens);

  // The metric's own run, which leaves its file there until the end, and factors.
  if (settings.guide == Guide::kWhitened && !context.has_metric) {
    RunSettings first = settings;
    first.guide = Guide::kPlain;
    first.collected = metric_statistics(what);
    first.head = false;
    first.windows = std::min<std::uint64_t>(first.windows, divide_up(kGuideWindows, context.processes));
    plan.metric_operations = plan_calibration(architecture, first, ~std::uint64_t{0}).operations;
    for (const CollectedLayer& layer : layers) {
      if (layer.head) continue;
      const double in = static_cast<double>(layer.in), out = static_cast<double>(layer.out);
      const bool inputs = first.collected.hessian && layer.input_of.empty(), outputs = first.collected.output_hessian;
      plan.metric_operations += 4.0 / 3.0 * ((inputs ? in * in * in : 0) + (outputs ? out * out * out : 0));
      metric_file += BlockSums::bytes({&layer, 1}, first.collected, Guide::kPlain) / 2;
    }
    plan.operations += plan.metric_operations;
  }

  const std::uint64_t base = without_sums + plan.accumulator_bytes;
  const std::uint64_t files = context.writes_file ? metric_file + 2 * std::max(output_bytes, metric_file) : 0;
  const bool kept_for_a_kill = plan.operations >= kLongRun && plan.residual_bytes <= context.disk &&
                               files + plan.residual_bytes <= 2 * context.disk;  // which is half of what is free
  plan.residuals_on_disk = kept_for_a_kill || base + plan.residual_bytes > memory;
  plan.memory_bytes = base + (plan.residuals_on_disk ? 0 : plan.residual_bytes);
  plan.disk_bytes = files + (plan.residuals_on_disk ? plan.residual_bytes : 0);
  return plan;
}

std::uint64_t disk_for_scratch(const std::filesystem::path& directory) {
  std::error_code error;
  const std::uint64_t free = std::filesystem::space(directory_of(directory), error).available;
  if (error) return 0;
  return (free + bytes_of_files(directory)) / 2;
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
  nibble::require_disk_space(directory_of(output), plan.disk_bytes - std::min(plan.disk_bytes, present), "calibration",
                             "the output, its shards and scratch files");
}

}  // namespace nibble::calib

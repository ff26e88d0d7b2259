#include "eval/sweep/sweep_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "calib/collect/plan.h"
#include "core/machine/thread_pool.h"
#include "eval/quality/kept_states.h"
#include "eval/quality/protocol_run.h"
#include "eval/speed/work.h"
#include "eval/sweep/sweep_inputs.h"

namespace nibble::eval {
namespace {

double head_weights(const model::Architecture& architecture) {
  return static_cast<double>(architecture.vocabulary) * static_cast<double>(architecture.hidden);
}

std::string megabytes(std::uint64_t bytes) {
  const double value = static_cast<double>(bytes) / 1e6;
  return fmt::format("{:.{}f} MB", value, value < 10.0 ? 3 : 0);
}

// One for all: quantizing keeps to what it is given, but a cell's evaluation takes what it needs.
void warn_of_the_largest(SweepPlan& plan, std::uint64_t memory) {
  const PlannedCell* largest = nullptr;
  for (const PlannedJob& job : plan.jobs)
    for (const PlannedCell& cell : job.cells)
      if (largest == nullptr || cell.cost.memory > largest->cost.memory) largest = &cell;
  if (largest == nullptr || largest->cost.memory <= memory) return;
  plan.warnings.push_back(fmt::format(
      "cell '{}' needs {}, and --memory grants {}: it takes what it needs, with no other cell beside it; grant more",
      cell_name(largest->record), megabytes(largest->cost.memory), megabytes(memory)));
}

}  // namespace

Cost evaluation_cost(const PlannedModel& model, const PlannedCell& cell) {
  constexpr std::uint64_t kFixed = std::uint64_t{64} << 20;  // logits, decoded tiles, the program
  const model::Architecture& architecture = model.architecture;
  double tokens = 0.0, attended = 0.0, scored = 0.0;
  std::size_t longest = 0;
  for (const datasets::Window& window :
       protocol_windows(cell.options, cell.tokens->tokens.size(), architecture.max_positions)) {
    const auto length = static_cast<double>(window.end - window.begin);
    tokens += length;
    attended += length * length / 2;
    scored += static_cast<double>(window.last_target - window.first_target);
    longest = std::max(longest, window.end - window.begin);
  }
  double width = 0.0;  // of all layers
  for (const model::BlockSpec& block : architecture.blocks) width += static_cast<double>(block.attention.q_width());
  const double head = head_weights(architecture);
  const std::uint64_t row = model::forward_floats_per_token(architecture);
  Cost cost;
  cost.operations =
      2.0 * (model::active_linear_weights(architecture) * tokens + head * scored) + 4.0 * width * attended;
  cost.memory = kFixed + row * sizeof(float) * std::max(longest, cell.options.batch_tokens);
  if (cell.divergence) {  // the reference's head too
    cost.operations += 2.0 * head * scored;
    cost.memory *= 2;
  }
  return cost;
}

Cost reference_cost(const PlannedModel& model, const PlannedReference& reference) {
  PlannedCell cell;
  cell.tokens = reference.tokens;
  cell.options = reference.options;
  Cost cost = evaluation_cost(model, cell);
  cost.disk = kept_states_bytes(model.architecture, reference.tokens->tokens, reference.options);
  return cost;
}

Cost speed_cost(const PlannedModel& model, const PlannedSpeed& speed) {
  // Decoding waits for memory: a weight takes as long as this many operations of a product of matrices.
  constexpr double kPerDecodedWeight = 16.0;
  const model::Architecture& architecture = model.architecture;
  const double weights = model::active_linear_weights(architecture) + head_weights(architecture);
  Cost cost;
  for (const SpeedOptions& options : speed.contexts) {
    const auto runs = static_cast<double>(options.warm_up + options.repeat);
    cost.operations += runs * (model::prompt_flops(architecture, options.prompt) +
                               kPerDecodedWeight * weights * static_cast<double>(options.generate));
    model::CacheOptions cache = options.cache;
    if (cache.kind != model::CacheKind::kWindow)
      cache.capacity = options.context > 0 ? options.context : options.prompt + options.generate + 1;
    cost.memory = std::max(cost.memory, model::cache_bytes(architecture, cache));
  }
  cost.memory += 2 * model.checkpoint->tensor_bytes();  // as loaded, and rearranged for decoding
  return cost;
}

Cost quantization_cost(const PlannedModel& model, const PlannedJob& job, std::size_t window_tokens,
                       std::uint64_t memory) {
  constexpr double kOperationsPerSecond = 5e10;  // of one thread, where estimate_work()'s seconds are from
  Cost cost;
  // Solvers keep to the memory that they are given: their largest arrays are mapped files beyond it.
  cost.memory = job.needs_text ? memory : std::min(job.work.largest_weight_bytes, memory);
  const double pass = 2.0 * (model::active_linear_weights(model.architecture) + head_weights(model.architecture)) *
                      static_cast<double>(window_tokens);
  cost.operations = kOperationsPerSecond * job.work.thread_seconds + pass * job.work.window_passes;
  cost.disk = 2 * model.checkpoint->tensor_bytes();
  return cost;
}

Cost calibration_cost(const PlannedModel& model, const PlannedCalibration& calibration, std::uint64_t memory,
                      bool is_part) {
  const calib::CalibrationPlan plan =
      calib::plan_calibration(model.architecture, calibration.settings, memory, {.has_metric = is_part});
  return {.operations = plan.operations, .seconds = 0.0, .memory = plan.memory_bytes, .disk = plan.disk_bytes};
}

void estimate(SweepPlan& plan, std::uint64_t memory) {
  constexpr double kProbe = 1e9;
  const double per_operation = calib::estimate_seconds({.operations = kProbe}) / kProbe;  // on all threads
  const double per_thread = per_operation * static_cast<double>(thread_count());
  for (PlannedCalibration& calibration : plan.calibrations) {
    if (calibration.settings.collected == calib::StatisticSet{}) continue;
    const auto makes_it = [&](const PlannedCalibration& other) {
      return is_part_of(calibration, other, plan.models[calibration.model]);
    };
    const bool is_part = std::any_of(plan.calibrations.begin(), plan.calibrations.end(), makes_it);
    calibration.cost = calibration_cost(plan.models[calibration.model], calibration, memory, is_part);
    if (is_part) calibration.cost.operations = 0.0;
    calibration.cost.seconds = calibration.cost.operations * per_operation;
  }
  for (PlannedReference& reference : plan.references) {
    reference.cost = reference_cost(plan.models[reference.model], reference);
    reference.cost.seconds = reference.cost.operations * per_operation;
  }
  for (PlannedJob& job : plan.jobs) {
    const PlannedModel& model = plan.models[job.model];
    const std::size_t window_tokens = job.calibration ? plan.calibrations[*job.calibration].windows.length : 0;
    job.cost = job.recipe ? quantization_cost(model, job, window_tokens, memory) : Cost{};
    for (PlannedCell& cell : job.cells) {
      cell.cost = cell.speed ? speed_cost(model, *cell.speed) : evaluation_cost(model, cell);
      cell.cost.seconds = cell.cost.operations * per_thread;
      job.cost.operations += cell.cost.operations;
      job.cost.memory = std::max(job.cost.memory, cell.cost.memory);
    }
    job.cost.seconds = job.cost.operations * per_thread;
  }
  warn_of_the_largest(plan, memory);
}

double quantizing_share(const PlannedJob& job) {
  constexpr double kGuess = 0.05;
  if (!job.recipe) return 0.0;
  if (job.cost.operations <= 0.0) return kGuess;
  double cells = 0.0;
  for (const PlannedCell& cell : job.cells) cells += cell.cost.operations;
  return 1.0 - cells / job.cost.operations;
}

bool takes_all(const PlannedJob& job) { return job.alone || job.needs_text; }

std::size_t workers_for(const std::vector<const PlannedJob*>& jobs, std::size_t threads, std::uint64_t memory) {
  std::uint64_t most = 1;
  std::size_t together = 0;
  for (const PlannedJob* job : jobs) {
    if (takes_all(*job)) continue;
    most = std::max(most, job->cost.memory);
    ++together;
  }
  const std::size_t fitting = static_cast<std::size_t>(std::min<std::uint64_t>(memory / most, threads));
  return std::max<std::size_t>(1, std::min({threads, together, fitting}));
}

}  // namespace nibble::eval

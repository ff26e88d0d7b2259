#include "quant/job/quantize_model.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/files/hash.h"
#include "core/files/output_directory.h"
#include "core/machine/program_identity.h"
#include "core/machine/scratch_memory.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/gemm.h"
#include "core/text/json.h"
#include "model/open/companions.h"
#include "model/open/open_model.h"
#include "quant/job/assemble.h"
#include "quant/job/budget/budget.h"
#include "quant/job/network/drifted_item.h"
#include "quant/job/network/input_scaling.h"
#include "quant/job/network/sequential.h"
#include "quant/job/network/tuning.h"
#include "quant/job/plan/plan.h"
#include "quant/job/shards/copy_tensor.h"
#include "quant/job/shards/make_shards.h"
#include "quant/job/statistics/calibration.h"
#include "quant/job/statistics/rare_experts.h"
#include "quant/store/model_weights.h"
#include "quant/store/quantization_config.h"
#include "quant/store/refuse_quantized.h"

namespace nibble::quant {
namespace {

// Everything that decides the bytes of the output, the program too: what another version left is not gone on with.
std::string job_fingerprint(const model::Checkpoint& checkpoint, const QuantizeOptions& options,
                            const Calibration& calibration) {
  Hasher hasher;
  hasher.update(fmt::format("nibble quantize, format {}", kQuantizedFormatVersion))
      .update(program_identity())
      .update(checkpoint.fingerprint())
      .update(options.recipe.canonical_text())
      .update(gemm_identity());  // solvers and errors multiply through it; names the instruction set too
  for (const std::string& file : calibration.content_hashes()) hasher.update(file);
  if (options.text)
    hasher.update(options.text->fingerprint)
        .update(fmt::format("{} {}", options.text->window_tokens, options.text->statistics_windows))
        .update(std::as_bytes(std::span(options.text->tokens)));
  if (options.statistics != kAllStatistics) hasher.update(calib::to_text(options.statistics));
  return hasher.hex();
}

// Copied tensors and biases are looked at before any work is done; weights when they are read.
void require_finite_copies(const Plan& plan, const model::Checkpoint& checkpoint) {
  std::vector<CopyItem> items = plan.copies;
  for (const BiasItem& bias : plan.biases)
    if (bias.original) items.push_back({.tensor = *bias.original});
  parallel_for(items.size(), [&](std::size_t i) { require_finite(items[i], checkpoint); });
}

bool is_sequential(const Plan& plan) {
  return std::any_of(plan.items.begin(), plan.items.end(),
                     [](const QuantizeItem& item) { return item.settings.sequential; });
}

// Errors are told behind quantized layers then, for which a whole run over the text is much.
bool is_sequential_in_vain(const Plan& plan, const std::vector<InputGroup>& groups) {
  const auto takes = [](const QuantizeItem& item) {
    return item.settings.sequential && item.identity.block_linear && takes_what_is_collected_on_the_way(item.settings);
  };
  const auto scales = [&](const InputGroup& group) { return plan.items[group.items.front()].settings.sequential; };
  return is_sequential(plan) && std::none_of(plan.items.begin(), plan.items.end(), takes) &&
         std::none_of(groups.begin(), groups.end(), scales);
}

void check_probes(const model::Architecture& architecture, std::uint64_t windows, std::uint64_t held_out,
                  const CalibrationText* text) {
  NIBBLE_REQUIRE(text != nullptr, InvalidArgument,
                 "the budget's probes run text through the model: give --text FILE, or token ids with --tokens FILE "
                 "(or leave them out: --set budget.probe_windows=0)");
  check_windows(*text, architecture, "budget");
  const std::size_t all = text->statistics_windows > 0 ? text->statistics_windows + held_out : text->windows();
  NIBBLE_REQUIRE(windows + held_out <= all, InvalidArgument, "budget: probe_windows: {} of a text of {} windows{}",
                 windows, all, held_out > 0 ? fmt::format(", of which tuning holds {} out", held_out) : "");
}

// What windows say of drift is told from noise by what one half of them says and the other does not.
void check_windows_of_drift(const Plan& plan, const CalibrationText& text) {
  const auto corrected = std::find_if(plan.items.begin(), plan.items.end(), is_drift_corrected);
  NIBBLE_REQUIRE(
      corrected == plan.items.end() || text.windows() >= 2, InvalidArgument,
      "drift_correction learns from two windows of text or more, not {}: give more (samples) or shorter ones "
      "(length), or say drift_correction: 0",
      text.windows());
}

// Of the windows between which drift is told from noise, what stands in both halves and so passes for drift.
double repeated_between_halves(const Plan& plan, const CalibrationText& text) {
  if (std::none_of(plan.items.begin(), plan.items.end(), is_drift_corrected)) return 0.0;
  std::vector<std::size_t> halves[2];
  for (std::size_t window = 0; window < text.windows(); ++window) halves[window % 2].push_back(window);
  return repeated_share(text, halves[1], halves[0]);
}

void check_use_of_text(const Plan& plan, const model::Architecture& architecture, const QuantizeOptions& options) {
  const bool wanted = is_sequential(plan);
  const auto& tuning = options.recipe.tuning();
  const std::uint64_t probed = options.recipe.budget() ? options.recipe.budget()->probe_windows : 0;
  NIBBLE_REQUIRE(
      !wanted || options.text, InvalidArgument,
      "sequential: true recomputes statistics while quantizing, and needs text for that, that of the calibration "
      "or other: --text FILE, or token ids with --tokens FILE (or take a preset that ends with -one-shot, or "
      "sequential: false and drift_correction: 0)");
  NIBBLE_REQUIRE(wanted || tuning || probed > 0 || !options.text, InvalidArgument,
                 "the text is for `sequential: true`, which the recipe says of no layer, for `tuning` and for a "
                 "budget's `probe_windows`, which it does not have; other statistics come from nibble calibrate");
  if (wanted) check_text(architecture, *options.text, options.memory_bytes);
  if (tuning) check_tuning(plan, architecture, *tuning, options.text ? &*options.text : nullptr);
  if (wanted) check_windows_of_drift(plan, options.text->of_statistics(tuning ? tuning->held_out : 0));
  if (probed > 0)
    check_probes(architecture, probed, tuning ? tuning->held_out : 0, options.text ? &*options.text : nullptr);
}

std::vector<InputScalingResult> scale_all_inputs(const std::vector<InputGroup>& groups, Plan& plan,
                                                 const Calibration& calibration, const std::filesystem::path& scratch,
                                                 JobReporter& reporter, std::uint64_t memory_bytes) {
  const auto weights_of = [&](const InputGroup& group) {
    std::uint64_t weights = 0;
    for (const std::size_t index : group.items) weights += plan.items[index].weights();
    return weights;
  };
  std::uint64_t total = 0;
  for (const InputGroup& group : groups) total += weights_of(group);
  if (total > 0) reporter.begin("scaling inputs", total);
  std::vector<InputScalingResult> results;
  for (const InputGroup& group : groups) {
    results.push_back(scale_inputs(group, plan, calibration, scratch, memory_bytes));
    reporter.advance(weights_of(group));
  }
  return results;
}

std::vector<Shard> shards_of(const Plan& plan, const Calibration& calibration, const std::filesystem::path& scratch,
                             JobReporter& reporter, std::uint64_t memory_bytes) {
  std::vector<ShardJob> jobs;
  std::uint64_t weights = 0;
  for (const QuantizeItem& item : plan.items) {
    // What a power cut leaves of one its hash tells, and no file says that it is there.
    jobs.push_back({&item, scratch / (item.identity.name + ".safetensors"), {}, Flush::kNo});
    weights += item.weights();
  }
  reporter.begin("quantizing", weights);
  return make_shards(jobs, calibration, reporter, memory_bytes);
}

// Nothing that is read lies where the output will, and the model is one to quantize.
void check_files(const model::Checkpoint& checkpoint, const QuantizeOptions& options) {
  refuse_quantized(checkpoint, fmt::format("checkpoint '{}'", options.model.string()), "quantize");
  require_companions(options.model);
  std::error_code error;
  NIBBLE_REQUIRE(!std::filesystem::equivalent(options.model, options.output, error), InvalidArgument,
                 "output '{}' is the model itself", options.output.string());
  std::vector<std::filesystem::path> inputs = options.calibration;
  inputs.push_back(options.model);
  inputs.insert(inputs.end(), options.sources.begin(), options.sources.end());
  require_inputs_outside(options.output, inputs);
}

std::optional<BudgetFit> fit_budget(const Plan& plan, const std::vector<InputGroup>& groups, const Recipe& recipe,
                                    const Calibration& calibration) {
  if (!recipe.budget()) return std::nullopt;
  std::uint64_t reserved = 0;  // inputs that are scaled on the way are scaled after the budget is spent
  if (is_sequential(plan))
    for (const InputGroup& group : groups) reserved += bits_of_wider_norm(group, plan);
  return std::optional<BudgetFit>(std::in_place, plan, recipe, calibration, reserved);
}

// Of layers that config.json gives no bias, those that the checkpoint has all the same.
std::set<std::string> undeclared_biases(const model::Checkpoint& checkpoint) {
  std::set<std::string> names;
  for (const model::Parameter* layer : model::linear_layers(checkpoint.architecture()))
    if (!layer->biased && model::find_tensor_name(checkpoint, layer->bias.tensor)) names.insert(layer->bias.tensor);
  return names;
}

QuantizationConfig stored_config(const Plan& plan, const QuantizeResult& result, const model::Checkpoint& checkpoint,
                                 const Recipe& recipe, const Calibration& calibration) {
  QuantizationConfig stored;
  for (const QuantizeItem& item : plan.items)
    if (item.settings.coded())
      stored.tensors[item.identity.name] = stored_tensor(item.settings, item.source->rows(), item.source->cols());
  stored.widened = widened_floats(plan);
  stored.kept_biases = undeclared_biases(checkpoint);
  stored.recipe = recipe.canonical_json().dump();
  stored.checkpoint_fingerprint = checkpoint.fingerprint();
  stored.calibration_fingerprints = calibration.fingerprints();
  stored.bits_per_weight = result.bits_per_weight;
  stored.model_bits_per_weight = result.model_bits_per_weight;
  return stored;
}

}  // namespace

QuantizeResult quantize_model(const QuantizeOptions& options) {
  options.recipe.validate();
  const auto checkpoint = options.checkpoint ? options.checkpoint : model::open_checkpoint(options.model);
  const model::Architecture& architecture = checkpoint->architecture();
  check_files(*checkpoint, options);
  Plan plan = make_plan(checkpoint, architecture, options.recipe);
  const Calibration calibration(options.calibration, *checkpoint, options.statistics);
  for (const QuantizeItem& item : plan.items) calibration.require_for(item);
  check_use_of_text(plan, architecture, options);
  if (options.text) calibration.require_alike(*options.text);
  std::vector<RareExpert> rare = set_rare_experts(plan, calibration, options.recipe.budget().has_value());
  const std::vector<InputGroup> groups = input_groups(plan, options.recipe);
  for (const InputGroup& group : groups) quant::require_for(group, plan, calibration);
  const bool sequential_in_vain = is_sequential_in_vain(plan, groups);  // before rare experts lose it
  const std::optional<BudgetFit> budget = fit_budget(plan, groups, options.recipe, calibration);
  require_finite_copies(plan, *checkpoint);

  const std::string identity = job_fingerprint(*checkpoint, options, calibration);
  OutputDirectory output(options.output, options.overwrite, identity);
  const ScratchMemory memory(output.scratch(), options.memory_bytes);
  JobReporter reporter(options.progress, options.tensor_done);
  std::vector<InputScalingResult> scaling;
  const bool sequential = is_sequential(plan);
  if (!sequential)
    scaling = scale_all_inputs(groups, plan, calibration, output.scratch(), reporter, options.memory_bytes);
  // What is for tuning alone has no part in what comes before.
  std::optional<CalibrationText> text;
  if (options.text) text = options.text->of_statistics(options.recipe.tuning() ? options.recipe.tuning()->held_out : 0);
  BudgetOutcome made;
  if (budget) {
    const BudgetJob job{checkpoint,
                        architecture,
                        text ? &*text : nullptr,
                        options.memory_bytes,
                        output.scratch(),
                        reporter,
                        sequential ? Announce::kNo : Announce::kYes};
    made = budget->run(job, plan);
  }
  if (sequential) {
    const SequentialJob job{checkpoint,       architecture, *text,   options.memory_bytes, calibration, groups,
                            output.scratch(), identity,     reporter};
    made.shards = quantize_sequentially(job, plan, scaling, rare);
  } else if (!budget) {
    made.shards = shards_of(plan, calibration, output.scratch(), reporter, options.memory_bytes);
  }
  std::optional<TuningResult> tuned;
  if (const auto& tuning = options.recipe.tuning()) {
    const CalibrationText some = options.text->first_and_last(tuning->windows, tuning->held_out);
    const TuningJob job{checkpoint,  architecture,     plan,     *tuning, some, options.memory_bytes,
                        calibration, output.scratch(), identity, reporter};
    made.shards = tune(job, made.shards, tuned.emplace());
  }
  QuantizeResult result = assemble(plan, made.shards, *checkpoint, output.partial() / "model.safetensors");
  result.input_scaling = scaling;
  result.rare_experts = std::move(rare);
  result.sequential_in_vain = sequential_in_vain;
  if (sequential) result.drift_repeated = repeated_between_halves(plan, *text);
  result.tuning = tuned;
  if (budget) result.budget = std::move(made.result);

  const QuantizationConfig stored = stored_config(plan, result, *checkpoint, options.recipe, calibration);
  output.add_text("config.json", with_quantization_config(checkpoint->metadata(), stored));
  output.add_text("quantization.json", report_json(result).dump(2) + "\n");
  model::add_companions(options.model, output.partial());
  output.publish();
  return result;
}

}  // namespace nibble::quant

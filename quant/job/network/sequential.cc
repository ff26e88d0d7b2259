#include "quant/job/network/sequential.h"

#include <algorithm>
#include <map>
#include <optional>

#include "calib/collect/boundary_walk.h"
#include "calib/collect/plan.h"
#include "calib/stats/derived.h"
#include "core/error.h"
#include "core/files/output_file.h"
#include "core/text/json.h"
#include "quant/job/network/drifted_item.h"
#include "quant/job/network/growing_model.h"
#include "quant/job/network/map_inputs.h"
#include "quant/job/network/shifted_bias.h"
#include "quant/job/shards/kept_state.h"
#include "quant/job/shards/make_shards.h"
#include "quant/job/shards/shard_source.h"
#include "quant/job/statistics/rare_experts.h"

namespace nibble::quant {
namespace {

using calib::BoundaryWalk;
using calib::CollectedLayer;
using Layers = std::span<const CollectedLayer>;

constexpr calib::StatisticSet kInputs{.activations = true, .hessian = true};
constexpr std::uint64_t kShareOfSums = 8;  // of memory: solvers want most of it

calib::CalibrationPlan plan_walk(const model::Architecture& architecture, const CalibrationText& text,
                                 std::uint64_t memory_bytes, const std::filesystem::path& scratch) {
  calib::RunSettings settings;
  settings.collected = kInputs;
  settings.window_tokens = text.window_tokens;
  settings.windows = text.tokens.size() / std::max<std::size_t>(1, text.window_tokens);
  return calib::plan_calibration(
      architecture, settings, memory_bytes,
      {.disk = calib::disk_for_scratch(scratch),
       .writes_file = false,
       .remedy = "take sequential: false with statistics of --calib, which need no forward pass"});
}

class SequentialRun {
 public:
  SequentialRun(const SequentialJob& job, Plan& plan, std::vector<InputScalingResult>& scaling,
                std::vector<RareExpert>& rare)
      : job_(job),
        plan_(plan),
        scaling_(scaling),
        rare_(rare),
        shards_(plan.items.size()),
        layers_(calib::collected_layers(job.architecture, false)) {
    for (const QuantizeItem& item : plan.items) {
      shifted_alone_ = shifted_alone_ || is_shifted_alone(item);
      if (!is_drift_corrected(item)) continue;
      corrected_ = true;
      const std::uint64_t in = item.source->cols(), hidden = job.architecture.hidden;
      drift_bytes_ = std::max(drift_bytes_, 2 * DriftSums::bytes(in, hidden, false));
      if (is_guide_carried(item))
        drift_bytes_ = std::max(drift_bytes_, DriftSums::bytes(in, hidden, true) + map_bytes(in));
    }
  }

  std::vector<Shard> run() {
    make_others();
    const calib::CalibrationPlan walk = plan_walk(job_.architecture, job_.text, job_.memory_bytes, job_.scratch);
    sums_limit_ = std::min(walk.accumulator_limit, job_.memory_bytes / kShareOfSums);
    const auto store = make_store(walk);
    BoundaryWalk live(job_.text.tokens, job_.text.window_tokens, walk.windows_per_batch, "boundary", *store);
    BoundaryWalk original(job_.text.tokens, job_.text.window_tokens, walk.windows_per_batch, "float", *store);
    const std::size_t first = start(live, original);
    for (std::size_t block = first; block < job_.architecture.blocks.size(); ++block) {
      const bool goes_on = block + 1 < job_.architecture.blocks.size();
      // Drift is measured while the block changes: the float model's stream waits for it. Both streams stay in front of
      // the block until the quantized one is beyond it, for a run that is killed before.
      if (shifted_alone_)
        measure_float_means(original, block,
                            goes_on && !corrected_ ? BoundaryWalk::Go::kAhead : BoundaryWalk::Go::kStay);
      for (std::vector<Step>& wave : waves_of(block)) quantize_wave(live, original, block, wave);
      if (goes_on && corrected_) original.run(float_network_->model(), block, {}, {}, BoundaryWalk::Go::kAhead);
      if (goes_on) live.run(network_->model(), block, {}, {}, BoundaryWalk::Go::kOn);
      if (goes_on && needs_float_stream()) original.leave(block);
      if (float_network_) float_network_->model().release_block(block);
      network_->model().release_block(block);
    }
    sort_results();
    return std::move(shards_);
  }

 private:
  // One input of a block, the layers that it feeds, and their weights.
  struct Step {
    std::vector<CollectedLayer> layers;
    std::vector<std::size_t> items;
    bool sequential = false;  // as the recipe has it: rare experts lose it
  };

  // What is quantized in place of plan.items, by index.
  using Drifted = std::map<std::size_t, QuantizeItem>;

  static bool is_shifted(const QuantizeItem& item) { return item.settings.sequential && item.settings.shifting; }
  bool needs_float_stream() const { return shifted_alone_ || corrected_; }

  std::filesystem::path file_of(std::size_t item) const {
    return job_.scratch / (plan_.items[item].identity.name + ".safetensors");
  }

  void make(const std::vector<std::size_t>& items, const Calibration& calibration, std::uint64_t memory_bytes,
            const Drifted& instead) {
    std::vector<ShardJob> jobs;
    for (const std::size_t item : items) {
      const auto other = instead.find(item);
      jobs.push_back({other == instead.end() ? &plan_.items[item] : &other->second, file_of(item)});
    }
    std::vector<Shard> made = make_shards(jobs, calibration, job_.reporter, memory_bytes);
    for (std::size_t i = 0; i < items.size(); ++i) shards_[items[i]] = std::move(made[i]);
  }

  // Embeddings, positions and the head, which have no statistics; then the model that starts with them.
  void make_others() {
    std::vector<std::size_t> others;
    std::map<std::string, std::shared_ptr<const WeightSource>> replaced;
    for (std::size_t i = 0; i < plan_.items.size(); ++i)
      if (!plan_.items[i].identity.block_linear) others.push_back(i);
    make(others, job_.calibration, job_.memory_bytes, {});
    for (const std::size_t i : others)
      replaced[plan_.items[i].identity.name] = shard_source(plan_.items[i], shards_[i]);
    network_.emplace(job_.architecture, model::make_float_provider(job_.checkpoint), std::move(replaced));
    if (needs_float_stream())
      float_network_.emplace(job_.architecture, model::make_float_provider(job_.checkpoint),
                             std::map<std::string, std::shared_ptr<const WeightSource>>{});
  }

  std::unique_ptr<calib::ResidualStore> make_store(const calib::CalibrationPlan& walk) const {
    const std::size_t length = job_.text.window_tokens;
    const calib::ResidualShape shape{job_.text.tokens.size(), job_.architecture.hidden,
                                     walk.windows_per_batch * length};
    // The plan counts two boundaries, before and after a block; the float model has two of its own. Nor does it count
    // what drift is summed in.
    const std::uint64_t streams = needs_float_stream() && !walk.residuals_on_disk ? walk.residual_bytes : 0;
    if (!walk.residuals_on_disk && walk.memory_bytes + streams + drift_bytes_ <= job_.memory_bytes)
      return calib::make_memory_store(shape);
    return calib::make_file_store(shape, job_.scratch, job_.identity);
  }

  // The block to begin with: the last one that an earlier run left the stream in front of, or the first.
  std::size_t start(BoundaryWalk& live, BoundaryWalk& original) {
    for (std::size_t block = job_.architecture.blocks.size(); block-- > 1;) {
      if (!live.holds(block) || (needs_float_stream() && !original.holds(block))) continue;
      if (find_blocks_before(block)) return block;
    }
    live.embed(network_->model());
    if (needs_float_stream()) embed_float(original);
    return 0;
  }

  // Takes the shards of all blocks before `block`; false if one is missing.
  bool find_blocks_before(std::size_t block) {
    std::vector<Step> steps;
    for (std::size_t before = 0; before < block; ++before)
      for (Step& step : steps_of(before)) {
        if (!is_finished(step)) return false;
        steps.push_back(std::move(step));
      }
    for (const Step& step : steps) find_rare(step);
    quantize(steps, job_.calibration, job_.memory_bytes);
    return true;
  }

  // The float model's embeddings are the checkpoint's, whatever the recipe makes of them.
  void embed_float(BoundaryWalk& original) const {
    const GrowingModel untouched(job_.architecture, model::make_float_provider(job_.checkpoint), {});
    original.embed(untouched.model());
  }

  Layers layers_of(std::size_t block) const {
    const auto begin = std::find_if(layers_.begin(), layers_.end(), [&](auto& layer) { return layer.block >= block; });
    const auto end = std::find_if(begin, layers_.end(), [&](auto& layer) { return layer.block > block; });
    return {begin, end};
  }

  // In the order in which data reaches them. Layers that share an input need not lie side by side: where a norm feeds
  // attention and MLP, gate and up have q's.
  std::vector<Step> steps_of(std::size_t block) const {
    std::vector<Step> steps;
    for (const CollectedLayer& layer : layers_of(block)) {
      const auto owner = std::find_if(steps.begin(), steps.end(),
                                      [&](const Step& step) { return step.layers.front().module == layer.input_of; });
      (owner == steps.end() ? steps.emplace_back() : *owner).layers.push_back(layer);
    }
    for (Step& step : steps) {
      step.items = items_of(step.layers);
      step.sequential = std::any_of(step.layers.begin(), step.layers.end(),
                                    [&](const CollectedLayer& layer) { return is_sequential(layer); });
    }
    return steps;
  }

  // Steps that do not see each other's weights are taken together: gate and up of all experts of a mixture, then down
  // of all.
  std::vector<std::vector<Step>> waves_of(std::size_t block) const {
    std::vector<std::vector<Step>> waves;
    std::optional<std::size_t> first_of_experts;
    std::map<std::size_t, std::size_t> steps_before;  // of an expert
    for (Step& step : steps_of(block)) {
      std::size_t wave = waves.size();
      if (const auto expert = step.layers.front().expert) {
        if (!first_of_experts) first_of_experts = waves.size();
        wave = *first_of_experts + steps_before[*expert]++;
      }
      if (wave == waves.size()) waves.emplace_back();
      waves[wave].push_back(std::move(step));
    }
    return waves;
  }

  std::vector<std::size_t> items_of(Layers layers) const {
    std::vector<std::size_t> items;
    for (std::size_t i = 0; i < plan_.items.size(); ++i)
      for (const CollectedLayer& layer : layers)
        if (plan_.items[i].identity.block_linear && plan_.items[i].layer.module == layer.module) items.push_back(i);
    return items;
  }

  bool is_sequential(const CollectedLayer& layer) const {
    const auto items = items_of({&layer, 1});
    return std::any_of(items.begin(), items.end(), [&](std::size_t i) { return plan_.items[i].settings.sequential; });
  }

  // Of the float model, whose routers are not coded.
  void measure_float_means(BoundaryWalk& original, std::size_t block, BoundaryWalk::Go go) {
    float_means_.clear();
    for (const auto& layer : original.run(float_network_->model(), block, layers_of(block), {.activations = true}, go))
      if (layer.tokens > 0) float_means_[layer.module] = calib::mean_input(layer);
  }

  void quantize_wave(BoundaryWalk& live, BoundaryWalk& original, std::size_t block, std::span<Step> wave) {
    const auto middle = std::stable_partition(wave.begin(), wave.end(),
                                              [&](const Step& step) { return step.sequential && !is_finished(step); });
    const std::span<const Step> measured(wave.begin(), middle), others(middle, wave.end());
    for (const Step& step : others) find_rare(step);
    quantize(others, job_.calibration, job_.memory_bytes);

    std::vector<CollectedLayer> inputs;  // layers that share an input share its statistics: those of the first
    for (const Step& step : measured) inputs.push_back(step.layers.front());
    for (const auto& [begin, end] : calib::layer_groups(inputs, kInputs, calib::Guide::kPlain, sums_limit_)) {
      const auto steps = measured.subspan(begin, end - begin);
      const Layers collected(inputs.data() + begin, end - begin);
      std::optional<LayerDrift> drift;
      auto sums = makes_up_for_drift(steps.front())
                      ? std::vector{measure_drift(live, original, block, steps.front(), drift)}
                      : live.run(network_->model(), block, collected, kInputs, BoundaryWalk::Go::kToInputs);
      LiveStatistics statistics;
      for (std::size_t i = 0; i < steps.size(); ++i) add_statistics(steps[i], std::move(sums[i]), statistics);
      const std::uint64_t held = calib::BlockSums::bytes(collected, kInputs, calib::Guide::kPlain) / 2;  // as float
      quantize_measured(steps, job_.calibration.with(std::move(statistics)), job_.memory_bytes - held,
                        std::move(drift));
    }
    for (const Step& step : wave)
      for (const CollectedLayer& layer : step.layers) put_in_place(layer);
  }

  bool makes_up_for_drift(const Step& step) const {
    return std::any_of(step.items.begin(), step.items.end(),
                       [&](std::size_t i) { return is_drift_corrected(plan_.items[i]); });
  }

  bool carries_guides(const Step& step) const {
    return std::any_of(step.items.begin(), step.items.end(),
                       [&](std::size_t i) { return is_guide_carried(plan_.items[i]); });
  }

  // The statistics of a step that makes up for drift (no experts', so the only one of its wave), and what that is; its
  // items get the map that carries guides.
  calib::LayerStats measure_drift(BoundaryWalk& live, BoundaryWalk& original, std::size_t block, const Step& step,
                                  std::optional<LayerDrift>& result) {
    const CollectedLayer& layer = step.layers.front();
    const model::BlockSpec& spec = job_.architecture.blocks[block];
    // Layers that are added to the stream share their input with no other.
    const bool added = is_added_to_stream(spec, plan_.items[step.items.front()].layer);
    const auto with = added ? BoundaryWalk::With::kStream : BoundaryWalk::With::kInput;
    DriftSums drift(job_.text.window_tokens, spec.residual_multiplier, carries_guides(step));
    calib::LayerStats sums = live.run_to(
        network_->model(), block, layer, kInputs, with, [&](std::size_t batch, const calib::LayerInput& input) {
          drift.add(original.input_of(float_network_->model(), block, layer.module, batch, with), input);
        });
    Matrix<float> squares = drift.take_squares();
    result = drift.take();
    if (carries_guides(step)) {
      const auto map = std::make_shared<const InputMap>(map_inputs(sums, *result, std::move(squares)));
      for (const std::size_t i : step.items)
        if (is_guide_carried(plan_.items[i])) plan_.items[i].input_map = map;
    }
    return sums;
  }

  void quantize(std::span<const Step> steps, const Calibration& calibration, std::uint64_t memory_bytes) {
    const std::vector<std::size_t> items = items_of_all(steps);
    scale_groups(items, calibration, memory_bytes);
    make(items, calibration, memory_bytes, {});
  }

  // Steps whose inputs were measured behind quantized layers; drift, where their weights make up for it.
  void quantize_measured(std::span<const Step> steps, const Calibration& calibration, std::uint64_t memory_bytes,
                         std::optional<LayerDrift> drift) {
    const std::vector<std::size_t> items = items_of_all(steps);
    scale_groups(items, calibration, memory_bytes);
    const Drifted instead = drifted_items(steps, calibration, drift);
    drift.reset();                         // solvers want the memory
    std::uint64_t held = 0, map_held = 0;  // all have one map
    for (const auto& [index, item] : instead) {
      if (is_drift_corrected(item)) held += item.weights() * sizeof(float);
      if (item.input_map) map_held = item.input_map->rest.size() * 2 * sizeof(float);
    }
    make(items, calibration, memory_bytes - std::min(memory_bytes, held + map_held), instead);
    for (const std::size_t i : items) plan_.items[i].input_map.reset();
  }

  static std::vector<std::size_t> items_of_all(std::span<const Step> steps) {
    std::vector<std::size_t> items;
    for (const Step& step : steps) items.insert(items.end(), step.items.begin(), step.items.end());
    return items;
  }

  // Items of measured steps whose weight or bias makes up for drift.
  Drifted drifted_items(std::span<const Step> steps, const Calibration& calibration,
                        const std::optional<LayerDrift>& drift) const {
    Drifted instead;
    for (const Step& step : steps)
      for (const std::size_t i : step.items) {
        const QuantizeItem& item = plan_.items[i];
        const LayerDrift* corrected = drift && is_drift_corrected(item) ? &*drift : nullptr;
        const std::optional<std::vector<double>> then = is_shifted(item) ? float_mean(item, corrected) : std::nullopt;
        if (corrected == nullptr && !then) continue;
        instead.emplace(i, drifted_item(item, {calibration.read(item, kInputs), then ? &*then : nullptr, corrected}));
      }
    return instead;
  }

  // None of an expert that the float model did not choose.
  std::optional<std::vector<double>> float_mean(const QuantizeItem& item, const LayerDrift* drift) const {
    if (drift != nullptr) return drift->float_input_mean();
    const auto mean = float_means_.find(item.layer.module);
    if (mean == float_means_.end()) return std::nullopt;
    return mean->second;
  }

  bool is_finished(const Step& step) const {
    for (const InputGroup& group : job_.groups)
      if (std::find(step.items.begin(), step.items.end(), group.items.front()) != step.items.end() &&
          !find_shard(input_scales_file(group, job_.scratch), group.norm))
        return false;
    return (!may_be_rare(step) || find_tokens(step)) &&
           std::all_of(step.items.begin(), step.items.end(),
                       [&](std::size_t i) { return find_shard(file_of(i), plan_.items[i].identity.name).has_value(); });
  }

  static bool may_be_rare(const Step& step) { return step.sequential && step.layers.front().expert; }

  // How many tokens chose an expert, which a run that goes on does not measure again.
  std::filesystem::path tokens_file(const Step& step) const {
    return job_.scratch / (step.layers.front().module + ".tokens.json");
  }
  std::optional<std::uint64_t> find_tokens(const Step& step) const {
    return kept_state(tokens_file(step), 1 << 10, [](const nlohmann::json& json) { return json.get<std::uint64_t>(); });
  }

  void find_rare(const Step& step) {
    if (may_be_rare(step)) set_rare(step, find_tokens(step).value());
  }

  // Sequential items of an expert that too few tokens chose lose the settings that need statistics. Whether there were
  // too few.
  bool set_rare(const Step& step, std::uint64_t tokens) {
    const std::size_t inputs = step.layers.front().in;
    if (!is_rare(tokens, inputs)) return false;
    for (const std::size_t i : step.items) {
      QuantizeItem& item = plan_.items[i];
      if (!item.settings.sequential) continue;
      rare_.push_back({item.identity.name, tokens, inputs});
      item.settings = without_statistics(item.settings);
      item.rare_expert = true;
    }
    drop_unshifted_biases(plan_);  // before shards count them
    return true;
  }

  // Experts in the order of plan.items and norms by name, whatever was found when.
  void sort_results() {
    std::map<std::string, std::size_t> place;
    for (std::size_t i = 0; i < plan_.items.size(); ++i) place[plan_.items[i].identity.name] = i;
    std::sort(rare_.begin(), rare_.end(),
              [&](const RareExpert& a, const RareExpert& b) { return place.at(a.name) < place.at(b.name); });
    std::sort(scaling_.begin(), scaling_.end(), [](const auto& a, const auto& b) { return a.norm < b.norm; });
  }

  // Of the layers of a step that are sequential, with what was summed of their input.
  void add_statistics(const Step& step, calib::LayerStats sums, LiveStatistics& statistics) {
    const auto shared = std::make_shared<const calib::LayerStats>(std::move(sums));
    if (may_be_rare(step)) {
      write_file(tokens_file(step), fmt::format("{}", shared->tokens));
      if (set_rare(step, shared->tokens)) return;
    }
    for (const CollectedLayer& layer : step.layers) {
      if (!is_sequential(layer)) continue;
      statistics.layers[layer.module] = shared;
    }
  }

  // Groups whose weights are among `items`: all share an input, so all are where the first is.
  void scale_groups(const std::vector<std::size_t>& items, const Calibration& calibration, std::uint64_t memory_bytes) {
    for (const InputGroup& group : job_.groups)
      if (std::find(items.begin(), items.end(), group.items.front()) != items.end())
        scaling_.push_back(scale_inputs(group, plan_, calibration, job_.scratch, memory_bytes));
  }

  // The layer's weight is made: from now on the network uses it.
  void put_in_place(const CollectedLayer& layer) {
    for (const std::size_t i : items_of({&layer, 1}))  // none, if it stays float16
      network_->replace(layer.module, shard_source(plan_.items[i], shards_[i]),
                        bias_beside(plan_.items[i].layer, plan_, shards_, *job_.checkpoint, network_->weights()));
  }

  const SequentialJob& job_;
  Plan& plan_;
  std::vector<InputScalingResult>& scaling_;
  std::vector<RareExpert>& rare_;
  std::vector<Shard> shards_;
  std::vector<CollectedLayer> layers_;
  bool shifted_alone_ = false;  // some item's bias takes up drift, and not its weight
  bool corrected_ = false;
  std::uint64_t drift_bytes_ = 0;  // most that sums of drift take, with drifted_item()'s copy
  std::uint64_t sums_limit_ = 0;   // bytes of sums that are collected in one walk
  std::optional<GrowingModel> network_, float_network_;
  std::map<std::string, std::vector<double>> float_means_;  // of the current block
};

}  // namespace

void check_text(const model::Architecture& architecture, const CalibrationText& text, std::uint64_t memory_bytes) {
  check_windows(text, architecture, "sequential", 1);
  (void)plan_walk(architecture, text, memory_bytes, {});
}

std::vector<Shard> quantize_sequentially(const SequentialJob& job, Plan& plan, std::vector<InputScalingResult>& scaling,
                                         std::vector<RareExpert>& rare) {
  std::uint64_t weights = 0;
  for (const QuantizeItem& item : plan.items) weights += item.weights();
  job.reporter.begin("quantizing", weights);
  return SequentialRun(job, plan, scaling, rare).run();
}

}  // namespace nibble::quant

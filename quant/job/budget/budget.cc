#include "quant/job/budget/budget.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "quant/format/windowed_codes.h"
#include "quant/job/shards/make_shards.h"
#include "quant/recipe/recipe_keys.h"
#include "quant/store/quantization_config.h"

namespace nibble::quant {
namespace {

// The settings of `base` with other bits, granularity and windows.
TensorSettings with_layout(TensorSettings base, unsigned bits, Granularity granularity, unsigned window_bits) {
  base.bits = bits;
  base.window_bits = window_bits;
  if (base.stored_as().takes("granularity") && granularity != base.granularity) {
    base.granularity = granularity;
    base.group_size.reset();  // was said of another kind of group
  }
  for (const RecipeKey& key : recipe_keys())  // a sign of rows is none of a palette for each
    if (!key.applies(base) && !key.is_default(base)) key.reset(base);
  try {
    check_combination(base);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("budget: {}", error.what()));
  }
  return base;
}

// Streams run down all outputs, by fewer bits a weight than a window has.
bool streams_hold(unsigned bits, Granularity granularity, unsigned window_bits) {
  return window_bits == 0 || (granularity == Granularity::kTensor && bits <= kMostWindowStep && bits < window_bits);
}

// Which of the budget's lists a weight takes its settings from.
struct Freedom {
  bool bits = false, granularity = false, windows = false;
};

Freedom freedom_of(const QuantizeItem& item, const Recipe& recipe) {
  const std::string name = item.identity.name + ".weight";
  if (recipe.rule_names(name, "format") || !item.identity.block_linear) return {};
  const TensorSettings& given = item.settings;
  const auto is_free = [&](std::string_view key) {
    return given.stored_as().takes(key) && !recipe.rule_names(name, key);
  };
  return {.bits = is_free("bits") && (!given.has_block_palette() || given.learns_block_palette()),
          .granularity = is_free("granularity"),
          .windows = is_free("window_bits") && !recipe.budget()->window_bits.empty()};
}

// A list that no weight takes is refused, unless it says what holds without it.
void require_use(const Plan& plan, const Recipe& recipe) {
  Freedom any;
  for (const QuantizeItem& item : plan.items) {
    const Freedom own = freedom_of(item, recipe);
    any.bits = any.bits || own.bits;
    any.granularity = any.granularity || own.granularity;
    any.windows = any.windows || own.windows;
  }
  const Budget& budget = *recipe.budget();
  const Budget unsaid;
  const auto require = [](bool used, std::string_view key) {
    NIBBLE_REQUIRE(used, InvalidArgument,
                   "budget: {}: no layer of the blocks is free to take one of the list: its format has none to choose, "
                   "or a rule says which; leave {} out of the budget",
                   key, key);
  };
  require(any.bits || budget.bits == unsaid.bits, "bits");
  require(any.granularity || budget.granularity == unsaid.granularity, "granularity");
  require(any.windows || budget.window_bits == unsaid.window_bits, "window_bits");
}

std::string layout_of(const WeightSource& w, const TensorSettings& settings) {
  return settings.coded() ? storage_text(stored_tensor(settings, w.rows(), w.cols()))
                          : std::string(settings.stored_as().name);
}

// Bits of the codes alone.
std::uint64_t code_bits(std::uint64_t weights, const TensorSettings& settings) {
  return weights * settings.code_bits() / settings.cluster_dim;
}

}  // namespace

std::vector<TensorSettings> budget_ways(const QuantizeItem& item, const Recipe& recipe) {
  const std::string name = item.identity.name + ".weight";
  const TensorSettings& given = item.settings;
  const Budget& budget = *recipe.budget();
  const Freedom free = freedom_of(item, recipe);
  const std::vector<unsigned> windows = free.windows ? budget.window_bits : std::vector{given.window_bits};
  std::vector<TensorSettings> ways;
  for (const unsigned bits : free.bits ? budget.bits : std::vector{given.bits})
    for (const Granularity granularity : free.granularity ? budget.granularity : std::vector{given.granularity}) {
      const std::size_t before = ways.size();
      for (const unsigned window_bits : windows)
        if (streams_hold(bits, granularity, window_bits))
          ways.push_back(with_layout(given, bits, granularity, window_bits));
      NIBBLE_REQUIRE(ways.size() > before, InvalidArgument,
                     "budget: {}: no windows of {} bits go on by {} bits in palettes of granularity: {}; {}leave these "
                     "bits or this granularity out of the budget",
                     name, fmt::join(windows, ", "), bits, granularity_name(granularity),
                     free.windows ? "list 0 in budget.window_bits for codes that do not overlap, or " : "");
    }
  return ways;
}

BudgetFit::BudgetFit(const Plan& plan, const Recipe& recipe, const Calibration& calibration,
                     std::uint64_t reserved_bits)
    : calibration_(calibration), budget_(*recipe.budget()) {
  room_.fixed_bits = reserved_bits;
  require_use(plan, recipe);
  add_candidates(plan, recipe);
  measure_room(plan);
  require_room_for_codes(plan);
  const std::vector<QuantizeItem> items = items_of(plan);
  for (const QuantizeItem& item : items) calibration.require_for(item);
  estimate_ = choose_loss_estimate(budget_.estimate, items, calibration);
}

void BudgetFit::add_candidates(const Plan& plan, const Recipe& recipe) {
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    first_.push_back(candidates_.size());
    for (const TensorSettings& way : budget_ways(plan.items[i], recipe)) {
      // A group of one row is a row: two ways of one layout are one.
      std::string layout = layout_of(*plan.items[i].source, way);
      const auto own = std::span(candidates_).subspan(first_.back());
      if (std::ranges::none_of(own, [&](const Candidate& other) { return other.layout == layout; }))
        candidates_.push_back({i, way, std::move(layout)});
    }
  }
}

void BudgetFit::measure_room(const Plan& plan) {
  for (const QuantizeItem& item : plan.items)
    if (item.identity.block_linear) room_.weights += item.weights();
  for (const CopyItem& copy : plan.copies)
    if (copy.reported && copy.reported->block_linear) {
      room_.weights += copy.tensor.element_count();
      room_.fixed_bits += copy.tensor.element_count() * 16;
    }
  room_.bits = static_cast<std::uint64_t>(std::floor(budget_.bits_per_weight * static_cast<double>(room_.weights)));
}

void BudgetFit::require_room(std::uint64_t least_bits, std::string_view of_what) const {
  const std::uint64_t least = room_.fixed_bits + least_bits;
  // Rounded up, so that it can be given as it is printed.
  const double per_weight = std::ceil(1e4 * static_cast<double>(least) / static_cast<double>(room_.weights)) / 1e4;
  NIBBLE_REQUIRE(least <= room_.bits, InvalidArgument,
                 "budget: bits_per_weight: {} is not possible with these bits, granularities and rules: {} take {:.4f} "
                 "at least; raise it, or allow fewer bits",
                 budget_.bits_per_weight, of_what, per_weight);
}

void BudgetFit::require_room_for_codes(const Plan& plan) const {
  std::vector<std::uint64_t> least(plan.items.size(), ~std::uint64_t{0});
  for (const Candidate& candidate : candidates_)
    least[candidate.weight] =
        std::min(least[candidate.weight], code_bits(plan.items[candidate.weight].weights(), candidate.settings));
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < least.size(); ++i)
    if (plan.items[i].identity.block_linear) sum += least[i];
  require_room(sum, "the codes alone");
}

// One for each candidate.
std::vector<QuantizeItem> BudgetFit::items_of(const Plan& plan) const {
  std::vector<QuantizeItem> items;
  for (const Candidate& candidate : candidates_) {
    items.push_back(plan.items[candidate.weight]);
    items.back().settings = candidate.settings;
    items.back().settings.sequential = false;  // ways are compared by the float model's statistics
  }
  return items;
}

std::vector<Shard> BudgetFit::make_candidates(const BudgetJob& job, const Plan& plan) const {
  const std::vector<QuantizeItem> items = items_of(plan);
  std::vector<ShardJob> jobs;
  std::uint64_t weights = 0;
  for (std::size_t c = 0; c < items.size(); ++c) {
    const QuantizeItem& item = items[c];
    const auto file = job.scratch / fmt::format("{}, {}.safetensors", item.identity.name, candidates_[c].layout);
    jobs.push_back({&item, file, item.identity.block_linear ? std::optional(estimate_) : std::nullopt});
    weights += item.weights();
  }
  job.reporter.begin(fmt::format("trying {} ways for {} tensors", jobs.size(), first_.size()), weights);
  return make_shards(jobs, calibration_, job.reporter, job.memory_bytes, Announce::kNo);
}

// The candidate of a weight that is nearest to the budget's bits.
std::size_t BudgetFit::nearest_way(std::size_t weight, const std::vector<Shard>& shards) const {
  const auto distance = [&](std::size_t c) {
    return std::abs(shards[c].result.bits_per_weight - budget_.bits_per_weight);
  };
  std::size_t nearest = first_[weight];
  for (std::size_t c = nearest + 1; c < end_of(weight); ++c)
    if (distance(c) < distance(nearest)) nearest = c;
  return nearest;
}

// By weight: none for those that have one way only, which no estimate can change.
std::vector<std::optional<BudgetProbe>> BudgetFit::probe(const BudgetJob& job, const Plan& plan,
                                                         const std::vector<Shard>& shards) const {
  std::vector<std::optional<BudgetProbe>> found(first_.size());
  if (budget_.probe_windows == 0) return found;
  std::vector<Probe> probes;
  for (std::size_t weight = 0; weight < first_.size(); ++weight) {
    if (!plan.items[weight].identity.block_linear || end_of(weight) - first_[weight] < 2) continue;
    const std::size_t way = nearest_way(weight, shards);
    probes.push_back({weight, candidates_[way].settings, &shards[way]});
    found[weight] = BudgetProbe{candidates_[way].layout, shards[way].result.predicted_loss.value(), 0.0};
  }
  const ProbeJob measure{job.checkpoint, job.architecture, *job.text, budget_.probe_windows, job.scratch, job.reporter};
  const std::vector<double> divergences = probe_divergences(measure, plan, probes);
  for (std::size_t p = 0; p < probes.size(); ++p) found[probes[p].item]->divergence = divergences[p];
  return found;
}

// By weight. Those outside the blocks have one way, and do not count.
std::vector<std::vector<KnapsackWay>> BudgetFit::choices_of(
    const Plan& plan, const std::vector<Shard>& shards, const std::vector<std::optional<BudgetProbe>>& probes) const {
  std::vector<std::vector<KnapsackWay>> choices(first_.size());
  for (std::size_t c = 0; c < candidates_.size(); ++c) {
    const TensorResult& made = shards[c].result;
    const std::size_t weight = candidates_[c].weight;
    const auto& probe = probes[weight];
    const double factor = probe ? probe_factor(probe->divergence, probe->predicted_loss) : 1.0;
    choices[weight].push_back(
        {factor * made.predicted_loss.value_or(0.0), plan.items[weight].identity.block_linear ? made.stored_bits : 0});
  }
  return choices;
}

BudgetOutcome BudgetFit::run(const BudgetJob& job, Plan& plan) const {
  std::vector<Shard> shards = make_candidates(job, plan);
  const auto probes = probe(job, plan, shards);
  const auto choices = choices_of(plan, shards, probes);
  std::uint64_t least_bits = 0;
  for (const auto& ways : choices)
    least_bits += std::min_element(ways.begin(), ways.end(), [](auto& a, auto& b) { return a.size < b.size; })->size;
  require_room(least_bits, "the smallest of them");
  const KnapsackResult picked = choose_ways(choices, room_.bits - room_.fixed_bits);

  BudgetOutcome outcome;
  outcome.result = {.limit_bits_per_weight = budget_.bits_per_weight,
                    .loss_estimate = std::string(loss_estimate_name(estimate_)),
                    .predicted_loss = picked.loss,
                    .lower_bound = picked.lower_bound,
                    .exact = picked.exact,
                    .probe_windows = budget_.probe_windows,
                    .tensors = {}};
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    BudgetTensor tensor{plan.items[i].identity.name, {}, probes[i]};
    for (std::size_t way = 0; way < choices[i].size(); ++way) {
      const TensorResult& made = shards[first_[i] + way].result;
      tensor.candidates.push_back({candidates_[first_[i] + way].layout, made.stored_bits, made.bits_per_weight,
                                   choices[i][way].loss, way == picked.chosen[i]});
    }
    if (plan.items[i].identity.block_linear) outcome.result.tensors.push_back(std::move(tensor));
    const std::size_t chosen = first_[i] + picked.chosen[i];
    plan.items[i].settings = candidates_[chosen].settings;
    outcome.shards.push_back(std::move(shards[chosen]));
    if (job.announce == Announce::kYes) job.reporter.announce(outcome.shards.back().result);
  }
  return outcome;
}

}  // namespace nibble::quant

#include "quant/job/network/input_scaling.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "calib/stats/derived.h"
#include "core/error.h"
#include "core/machine/memory_gate.h"
#include "core/machine/thread_pool.h"
#include "quant/algo/solve/hessian.h"
#include "quant/job/shards/copy_tensor.h"
#include "quant/job/shards/shard.h"
#include "quant/job/statistics/hessian_choice.h"
#include "quant/job/statistics/weight_statistics.h"
#include "quant/tensor/quantize_tensor.h"

namespace nibble::quant {
namespace {

// s for the exponent step / kInputScalingSteps.
InputScales scales_of(const std::vector<double>& magnitude, std::size_t step) {
  const double exponent = static_cast<double>(step) / kInputScalingSteps;
  std::vector<double> s(magnitude.size(), 1.0);
  double least = INFINITY, most = 0.0;
  for (std::size_t j = 0; j < s.size(); ++j) {
    if (magnitude[j] == 0.0) continue;
    s[j] = std::max(std::pow(magnitude[j], exponent), 1e-4);
    least = std::min(least, s[j]), most = std::max(most, s[j]);
  }
  const double centre = most > 0.0 ? std::sqrt(least * most) : 1.0;
  auto scales = std::make_shared<std::vector<float>>(s.size(), 1.0f);
  for (std::size_t j = 0; j < s.size(); ++j)
    if (magnitude[j] != 0.0) (*scales)[j] = static_cast<float>(s[j] / centre);
  return scales;
}

QuantizeItem scaled(QuantizeItem item, const InputScales& scales) {
  item.source = scale_columns(std::move(item.source), scales);
  item.input_scales = scales;
  return item;
}

// tr(Δ H Δᵀ) / tr(W H Wᵀ) of a weight with its inputs scaled.
double squared_error(const QuantizeItem& item, const InputScales& scales, Solver solver,
                     const Calibration& calibration) {
  QuantizeItem tried = scaled(item, scales);
  const WeightStatistics statistics = statistics_for(tried, calibration);
  tried.settings.solver = solver;
  const WeightParts made = quantize_tensor(item.identity.name, *tried.source, tried.settings, statistics);
  return std::pow(made.output_error.value(), 2);
}

double output_power(const QuantizeItem& item, const Calibration& calibration) {
  Matrix<float> w(item.source->rows(), item.source->cols());
  item.source->decode_rows(0, w.rows(), w.data());
  return hessian_error(w.view(), statistics_for(item, calibration).hessian.view());
}

// The squared errors of a group's outputs, relative to them, for each of `steps`.
std::vector<double> group_errors(const std::vector<const QuantizeItem*>& items, const std::vector<double>& magnitude,
                                 const std::vector<std::size_t>& steps, bool solve, const Calibration& calibration,
                                 std::uint64_t memory_bytes) {
  std::vector<double> powers(items.size()), errors(items.size() * steps.size());
  std::uint64_t most_bytes = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    powers[i] = output_power(*items[i], calibration);
    most_bytes = std::max(most_bytes, work_bytes(*items[i], calibration));
  }
  MemoryGate gate(memory_bytes);
  const auto try_one = [&](std::size_t task) {
    const QuantizeItem& item = *items[task % items.size()];
    const MemoryGate::Pass pass(gate, work_bytes(item, calibration));
    const InputScales scales = scales_of(magnitude, steps[task / items.size()]);
    errors[task] = squared_error(item, scales, solve ? item.settings.solver : Solver::kNearest, calibration);
  };
  if (most_bytes > memory_bytes)  // one after the other, each on all threads
    for (std::size_t task = 0; task < errors.size(); ++task) try_one(task);
  else
    parallel_for(errors.size(), try_one);
  const double total = std::max(std::accumulate(powers.begin(), powers.end(), 0.0), 1e-300);
  std::vector<double> sums(steps.size());
  for (std::size_t task = 0; task < errors.size(); ++task)
    sums[task / items.size()] += errors[task] * powers[task % items.size()] / total;
  return sums;
}

struct Search {
  std::size_t step = 0;
  double before = 0.0, after = 0.0;  // squared
};

Search search(const std::vector<const QuantizeItem*>& items, const std::vector<double>& magnitude,
              const Calibration& calibration, std::uint64_t memory_bytes) {
  std::vector<std::size_t> steps(kInputScalingSteps);
  std::iota(steps.begin(), steps.end(), std::size_t{0});
  const auto errors = group_errors(items, magnitude, steps, false, calibration, memory_bytes);
  const auto best = static_cast<std::size_t>(std::min_element(errors.begin(), errors.end()) - errors.begin());
  const bool solved = std::any_of(items.begin(), items.end(),
                                  [](const QuantizeItem* item) { return item->settings.solver != Solver::kNearest; });
  if (!solved || best == 0) return {best, errors[0], errors[best]};
  const auto solver_errors = group_errors(items, magnitude, {0, best}, true, calibration, memory_bytes);
  const bool kept = solver_errors[1] < solver_errors[0];
  return {kept ? best : 0, solver_errors[0], solver_errors[kept ? 1 : 0]};
}

template <class T>
TensorPart part_of(std::string suffix, DType dtype, const std::vector<T>& values) {
  auto owner = std::make_shared<const std::vector<T>>(values);
  return {std::move(suffix), dtype, {values.size()}, std::as_bytes(std::span(*owner)), owner};
}

template <class T>
std::vector<T> values_of(const TensorPart& part) {
  std::vector<T> values(part.bytes.size() / sizeof(T));
  std::memcpy(values.data(), part.bytes.data(), values.size() * sizeof(T));
  return values;
}

// What was found: the scales, and {step, squared errors before and after}.
struct Found {
  InputScales scales;
  Search search;
};

Found find_or_search(const InputGroup& group, const Plan& plan, const Calibration& calibration,
                     const std::filesystem::path& scratch, std::uint64_t memory_bytes) {
  const auto file = input_scales_file(group, scratch);
  std::vector<const QuantizeItem*> items;
  for (const std::size_t index : group.items) items.push_back(&plan.items[index]);
  if (const auto shard = find_shard(file, group.norm)) {
    const std::vector<TensorPart> parts = shard_parts(*shard);  // in name order, as written below
    const auto figures = values_of<double>(parts.at(1));
    return {std::make_shared<const std::vector<float>>(values_of<float>(parts.at(0))),
            {static_cast<std::size_t>(figures.at(0)), figures.at(1), figures.at(2)}};
  }
  const std::vector<double> magnitude = calib::mean_magnitude(calibration.read(*items.front(), {.activations = true}));
  const Search found = search(items, magnitude, calibration, memory_bytes);
  const InputScales scales = scales_of(magnitude, found.step);
  WeightParts parts;
  parts.parts = {
      part_of("input_scale", DType::kF32, *scales),
      part_of("search", DType::kF64, std::vector{static_cast<double>(found.step), found.before, found.after})};
  TensorResult result;
  result.name = group.norm, result.format = "input scales";
  write_shard(file, result, std::move(parts));
  return {scales, found};
}

bool is_of_norm(const CopyItem& copy, const InputGroup& group) {
  return copy.name == group.norm + ".weight" || copy.name == group.norm + ".bias";
}

}  // namespace

bool is_fed_by_norm(const QuantizeItem& item) { return !item.layer.fed_by.empty() && item.identity.block_linear; }

std::vector<InputGroup> input_groups(Plan& plan, const Recipe& recipe) {
  std::map<std::string, InputGroup> groups;
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    QuantizeItem& item = plan.items[i];
    if (item.settings.input_scaling == InputScaling::kNone) continue;
    const std::string& norm = item.layer.fed_by;
    if (!is_fed_by_norm(item)) {
      NIBBLE_REQUIRE(!recipe.rule_names(item.identity.name + ".weight", "input_scaling"), InvalidArgument,
                     "{}: input_scaling: awq goes with layers whose input comes straight from a norm (q, k, v; gate, "
                     "up) that feeds nothing else",
                     item.identity.name);
      item.settings.input_scaling = InputScaling::kNone;
      continue;
    }
    InputGroup& group = groups[norm];
    group.norm = norm;
    group.items.push_back(i);
  }
  std::vector<InputGroup> result;
  for (auto& [name, group] : groups) {
    const QuantizeItem& first = plan.items[group.items.front()];
    NIBBLE_REQUIRE(group.items.size() == first.layer.norm_readers, InvalidArgument,
                   "{}: input_scaling: awq must be said of every layer that '{}' feeds, none of them float16: they "
                   "share its output",
                   first.identity.name, name);
    result.push_back(std::move(group));
  }
  return result;
}

void require_for(const InputGroup& group, const Plan& plan, const Calibration& calibration) {
  for (const std::size_t index : group.items) {
    const QuantizeItem& item = plan.items[index];
    if (item.settings.sequential) continue;  // collected on the way
    calibration.require(item, "input_scaling: awq", {.activations = true});
    calibration.require(item, "input_scaling: awq", hessian_statistics(item.settings));
  }
}

std::filesystem::path input_scales_file(const InputGroup& group, const std::filesystem::path& scratch) {
  return scratch / fmt::format("{}, input scales.safetensors", group.norm);
}

std::uint64_t bits_of_wider_norm(const InputGroup& group, const Plan& plan) {
  std::uint64_t bits = 0;
  for (const CopyItem& copy : plan.copies) {
    const std::size_t before = dtype_size(copy.tensor.dtype), after = dtype_size(DType::kF32);
    if (is_of_norm(copy, group) && after > before) bits += (after - before) * 8 * copy.tensor.element_count();
  }
  return bits;
}

InputScalingResult scale_inputs(const InputGroup& group, Plan& plan, const Calibration& calibration,
                                const std::filesystem::path& scratch, std::uint64_t memory_bytes) {
  const Found found = find_or_search(group, plan, calibration, scratch, memory_bytes);
  if (found.search.step > 0) {
    for (const std::size_t index : group.items) plan.items[index] = scaled(std::move(plan.items[index]), found.scales);
    plan.items[group.items.front()].added_bits += bits_of_wider_norm(group, plan);
    for (CopyItem& copy : plan.copies)
      if (is_of_norm(copy, group)) copy.divisor = found.scales;
  }
  const auto [least, most] = std::minmax_element(found.scales->begin(), found.scales->end());
  return {group.norm,
          static_cast<double>(found.search.step) / kInputScalingSteps,
          static_cast<double>(*least),
          static_cast<double>(*most),
          std::sqrt(found.search.before),
          std::sqrt(found.search.after)};
}

}  // namespace nibble::quant

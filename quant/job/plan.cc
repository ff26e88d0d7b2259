#include "quant/job/plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "model/checkpoint/tensor_checks.h"

namespace nibble::quant {
namespace {

void require_divisible(const std::string& name, const TensorSettings& settings, std::size_t inputs) {
  NIBBLE_REQUIRE(inputs % settings.cluster_dim == 0, InvalidArgument,
                 "{}: cluster_dim: its {} inputs cannot be cut into vectors of {}; give it cluster_dim: 1 by a rule",
                 name, inputs, settings.cluster_dim);
}

class Planner {
 public:
  Planner(const std::shared_ptr<const model::Checkpoint>& checkpoint, const model::Config& config, const Recipe& recipe)
      : checkpoint_(checkpoint),
        config_(config),
        recipe_(recipe),
        provider_(model::make_float_provider(checkpoint)),
        rule_used_(recipe.rules().size(), false) {}

  Plan make() {
    for (const model::LinearLayer& layer : model::linear_layers(config_)) add_linear(layer);
    const bool gpt2 = config_.family == model::Family::kGpt2;
    add_named(gpt2 ? "wte" : "model.embed_tokens", config_.vocabulary);
    if (gpt2) add_named("wpe", config_.max_positions);
    if (!config_.tied_head) add_named("lm_head", config_.vocabulary);
    add_rest();
    const auto rules = recipe_.rules();
    for (std::size_t i = 0; i < rules.size(); ++i)
      if (!rule_used_[i]) plan_.unused_rules.push_back(rules[i]);
    return std::move(plan_);
  }

 private:
  // Settings for a tensor by its full name, remembering the rule.
  TensorSettings settings(const std::string& name) {
    if (const auto rule = recipe_.matching_rule(name)) rule_used_[*rule] = true;
    return recipe_.settings(name);
  }

  void add_linear(const model::LinearLayer& layer) {
    const auto source = provider_->matrix(layer.module, layer.out, layer.in, layer.conv1d);
    std::vector<QuantizeItem> parts;
    const auto add_part = [&](const std::string& name, std::shared_ptr<const WeightSource> part,
                              std::size_t first_row) {
      QuantizeItem& item = parts.emplace_back();
      item.identity = {name, order_++, true};
      item.source = std::move(part);
      item.settings = settings(name + ".weight");
      item.layer = {layer.module, layer.out, first_row};
    };
    if (layer.module.ends_with(".c_attn")) {
      const char* const suffixes[] = {".q", ".k", ".v"};
      for (std::size_t i = 0; i < 3; ++i)
        add_part(layer.module + suffixes[i],
                 model::make_row_slice_source(source, i * layer.out / 3, (i + 1) * layer.out / 3), i * layer.out / 3);
    } else {
      add_part(layer.module, source, 0);
    }
    const WeightIdentity whole{layer.module, parts.front().identity.order, true};
    add_bias(layer, parts);
    add_weight(whole, std::move(parts));
  }

  // The bias that shifting of some of `parts`, about to become items, changes or adds.
  void add_bias(const model::LinearLayer& layer, std::vector<QuantizeItem>& parts) {
    BiasItem bias{
        .name = layer.module + ".bias", .size = layer.out, .dtype = DType::kF16, .original = {}, .weights = {}};
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (parts[i].settings.shifting) bias.weights.push_back(plan_.items.size() + i);
    if (bias.weights.empty()) return;
    if (const auto stored = model::find_tensor_name(*checkpoint_, bias.name)) {
      bias.original = checkpoint_->tensor(*stored);
      (void)provider_->vector(bias.name, bias.size);  // throws unless it is float, of that size
      taken_.insert(*stored);
      const bool round = recipe_.matching_rule(bias.name) && !settings(bias.name).coded();
      if (bias.original->dtype != DType::kF16 && !round) bias.dtype = DType::kF32;
    } else {
      for (QuantizeItem& part : parts) part.adds_bias = true;
    }
    plan_.parameters += bias.size;
    plan_.biases.push_back(std::move(bias));
  }

  void add_named(const std::string& module, std::size_t rows) {
    const auto source = provider_->matrix(module, rows, config_.hidden, false);
    if (!recipe_.matching_rule(module + ".weight")) return;  // left to add_rest()
    const TensorSettings whole_settings = settings(module + ".weight");
    NIBBLE_REQUIRE(!whole_settings.shifting, InvalidArgument,
                   "{}: shifting: true corrects the bias of a linear layer of the blocks; this has none", module);
    const WeightIdentity whole{module, order_++, false};
    add_weight(whole, {{whole, source, whole_settings, {module, rows, 0}, false, {}}});
  }

  // A weight in one or several parts: a plain float16 tensor as it lies if that is what all of them are.
  void add_weight(const WeightIdentity& whole, std::vector<QuantizeItem> parts) {
    const std::string stored = *model::find_tensor_name(*checkpoint_, whole.name + ".weight");
    taken_.insert(stored);
    const bool plain =
        std::all_of(parts.begin(), parts.end(), [](const QuantizeItem& part) { return !part.settings.coded(); });
    for (const QuantizeItem& part : parts) {
      require_divisible(part.identity.name, part.settings, part.source->cols());
      plan_.parameters += part.weights();
    }
    if (plain) {
      plan_.copies.push_back({checkpoint_->tensor(stored), whole.name + ".weight", true, {}, whole});
    } else {
      std::move(parts.begin(), parts.end(), std::back_inserter(plan_.items));
    }
  }

  void add_rest() {
    std::set<std::string> names;
    for (const std::string& stored : checkpoint_->tensor_names()) {
      if (taken_.contains(stored) || model::is_ignored_buffer(stored)) continue;
      constexpr std::string_view kPrefix = "transformer.";
      const bool prefixed = config_.family == model::Family::kGpt2 && stored.starts_with(kPrefix);
      const std::string name = prefixed ? stored.substr(kPrefix.size()) : stored;
      if (config_.tied_head && name == "lm_head.weight") continue;
      NIBBLE_REQUIRE(names.insert(name).second && !taken_.contains(name), FormatError,
                     "checkpoint '{}': tensor '{}' is there with and without 'transformer.'",
                     checkpoint_->directory().string(), name);
      model::TensorView tensor = checkpoint_->tensor(stored);
      plan_.parameters += tensor.element_count();
      const bool round = recipe_.matching_rule(name) && !settings(name).coded();
      const bool to_f16 = round && is_float(tensor.dtype);
      plan_.copies.push_back({std::move(tensor), name, to_f16, {}, std::nullopt});
    }
  }

  std::shared_ptr<const model::Checkpoint> checkpoint_;
  const model::Config& config_;
  const Recipe& recipe_;
  std::unique_ptr<model::WeightProvider> provider_;
  std::vector<bool> rule_used_;
  std::set<std::string> taken_;  // stored names that are weights of `items` or `copies`
  std::size_t order_ = 0;
  Plan plan_;
};

}  // namespace

Plan make_plan(const std::shared_ptr<const model::Checkpoint>& checkpoint, const model::Config& config,
               const Recipe& recipe) {
  return Planner(checkpoint, config, recipe).make();
}

}  // namespace nibble::quant

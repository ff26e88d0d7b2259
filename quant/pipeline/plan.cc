#include "quant/pipeline/plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "model/checkpoint/tensor_checks.h"
#include "quant/pipeline/recipe_keys.h"

namespace nibble::quant {
namespace {

// Keys that ask for what only calibration, or work that comes with it, can give.
constexpr std::pair<std::string_view, std::string_view> kNotYet[] = {
    {"weighting", "calibration statistics"},
    {"scaling", "the scaled palettes that come with calibration"},
    {"cluster_dim", "the vector palettes that come with calibration"},
    {"search", "the scale search that comes with calibration"},
    {"shifting", "mean inputs from calibration"},
    {"solver", "Hessians from calibration"},
    {"sequential", "calibration text"},
    {"input_scaling", "activation statistics from calibration"},
    {"outliers_sensitive", "Fisher sensitivities from calibration"},
    {"outliers_large", "the sparse part that comes with calibration"},
};

void require_available(const std::string& name, const TensorSettings& settings) {
  const auto refuse = [&](std::string_view key, const std::string& value, std::string_view needs) {
    throw InvalidArgument(fmt::format(
        "{}: {}: {} needs {}, not available in this version; --preset palette and --preset int4-block work without",
        name, key, value, needs));
  };
  for (const auto& [key_name, needs] : kNotYet) {
    const RecipeKey& key = find_recipe_key(key_name);
    if (key.is_default(settings)) continue;
    const auto value = key.print(settings);
    refuse(key_name, value.is_string() ? value.get<std::string>() : value.dump(), needs);
  }
  if (settings.palette_dtype == PaletteDtype::kInt8)
    refuse("palette_dtype", "int8", "the integer palettes that come with calibration");
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
    const auto add_part = [&](const std::string& name, std::shared_ptr<const WeightSource> part) {
      const TensorSettings part_settings = settings(name + ".weight");
      parts.push_back({{name, order_++, true}, std::move(part), part_settings});
    };
    if (layer.module.ends_with(".c_attn")) {
      const char* const suffixes[] = {".q", ".k", ".v"};
      for (std::size_t i = 0; i < 3; ++i)
        add_part(layer.module + suffixes[i],
                 model::make_row_slice_source(source, i * layer.out / 3, (i + 1) * layer.out / 3));
    } else {
      add_part(layer.module, source);
    }
    const WeightIdentity whole{layer.module, parts.front().identity.order, true};
    add_weight(whole, std::move(parts));
  }

  void add_named(const std::string& module, std::size_t rows) {
    const auto source = provider_->matrix(module, rows, config_.hidden, false);
    if (!recipe_.matching_rule(module + ".weight")) return;  // left to add_rest()
    const TensorSettings whole_settings = settings(module + ".weight");
    const WeightIdentity whole{module, order_++, false};
    add_weight(whole, {{whole, source, whole_settings}});
  }

  // A weight in one or several parts: a plain float16 tensor as it lies if that is what all of them are.
  void add_weight(const WeightIdentity& whole, std::vector<QuantizeItem> parts) {
    const std::string stored = *model::find_tensor_name(*checkpoint_, whole.name + ".weight");
    taken_.insert(stored);
    const bool plain = std::all_of(parts.begin(), parts.end(),
                                   [](const QuantizeItem& part) { return part.settings.format == Format::kFloat16; });
    for (const QuantizeItem& part : parts) {
      require_available(part.identity.name, part.settings);
      plan_.parameters += part.weights();
    }
    if (plain) {
      plan_.copies.push_back({checkpoint_->tensor(stored), whole.name + ".weight", true, whole});
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
      const bool round = recipe_.matching_rule(name) && settings(name).format == Format::kFloat16;
      const bool to_f16 = round && is_float(tensor.dtype);
      plan_.copies.push_back({std::move(tensor), name, to_f16, std::nullopt});
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
  NIBBLE_REQUIRE(!recipe.budget(), InvalidArgument,
                 "budget needs calibration statistics, not available in this version; set bits by rules instead");
  return Planner(checkpoint, config, recipe).make();
}

}  // namespace nibble::quant

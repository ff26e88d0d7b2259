#include "quant/job/plan/plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "model/architecture/tensor_names.h"
#include "model/checkpoint/narrow_tensors.h"

namespace nibble::quant {
namespace {

void require_divisible(const std::string& name, const TensorSettings& settings, std::size_t inputs) {
  NIBBLE_REQUIRE(inputs % settings.cluster_dim == 0, InvalidArgument,
                 "{}: cluster_dim: its {} inputs cannot be cut into vectors of {}; give it cluster_dim: 1 by a rule",
                 name, inputs, settings.cluster_dim);
}

class Planner {
 public:
  Planner(const std::shared_ptr<const model::Checkpoint>& checkpoint, const model::Architecture& architecture,
          const Recipe& recipe)
      : checkpoint_(checkpoint),
        architecture_(architecture),
        recipe_(recipe),
        provider_(model::make_float_provider(checkpoint)),
        narrow_(*checkpoint),
        rule_used_(recipe.rules().size(), false) {}

  Plan make() {
    add_linears();
    for (const model::Parameter* p : model::matrices(architecture_))
      if (!model::is_quantizable(p->role)) add_named(*p);
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

  // Whether a rule makes a norm, a bias or the like float16. One that asks for codes leaves it as it is, and counts as
  // used only where it applies to something else.
  bool rounds_to_f16(const std::string& name) {
    const auto rule = recipe_.matching_rule(name);
    const bool rounds = rule && !recipe_.settings(name).coded();
    if (rounds) rule_used_[*rule] = true;
    return rounds;
  }

  QuantizeItem item_of(const model::Parameter& layer, bool block_linear) {
    QuantizeItem item;
    item.identity = {layer.module, order_++, block_linear};
    item.source = provider_->matrix(layer);
    item.settings = settings(layer.module + ".weight");
    item.layer = layer;
    return item;
  }

  // Layers that lie in one tensor are decided on together: it stays whole where all of them stay float16.
  void add_linears() {
    std::vector<std::vector<QuantizeItem>> tensors;
    std::map<std::string, std::size_t> of_tensor;
    for (const model::Parameter* layer : model::linear_layers(architecture_)) {
      const auto [place, is_new] = of_tensor.emplace(layer->weight.tensor, tensors.size());
      if (is_new) tensors.emplace_back();
      tensors[place->second].push_back(item_of(*layer, true));
    }
    for (std::vector<QuantizeItem>& parts : tensors) {
      add_bias(parts);
      add_weight(std::move(parts));
    }
  }

  // The bias that shifting of some of `parts`, about to become items, changes or adds.
  void add_bias(std::vector<QuantizeItem>& parts) {
    const model::Stored& place = parts.front().layer.bias;
    BiasItem bias;
    bias.name = place.tensor;
    bias.shape = place.shape();
    bias.size = std::max<std::size_t>(place.slices, 1) * place.rows;
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (parts[i].settings.shifting) bias.weights.push_back(plan_.items.size() + i);
    if (bias.weights.empty()) return;
    if (const auto stored = model::find_tensor_name(*checkpoint_, bias.name)) {
      bias.original = checkpoint_->tensor(*stored);
      (void)provider_->vector(place);  // throws unless it is float, of that size
      taken_.insert(*stored);
      const bool round = rounds_to_f16(bias.name);
      if (bias.original->dtype != DType::kF16 && !round) bias.dtype = DType::kF32;
    }
    const std::size_t before = bias.original ? dtype_size(bias.original->dtype) : 0, after = dtype_size(bias.dtype);
    if (after > before)
      for (QuantizeItem& part : parts) part.added_bits += (after - before) * 8 * part.source->rows();
    plan_.parameters += bias.size;
    plan_.biases.push_back(std::move(bias));
  }

  void add_named(const model::Parameter& parameter) {
    const std::string name = parameter.module + ".weight";
    (void)provider_->matrix(parameter);        // throws where it is missing or of another shape
    if (!recipe_.matching_rule(name)) return;  // left to add_rest()
    std::vector<QuantizeItem> alone;
    alone.push_back(item_of(parameter, false));
    NIBBLE_REQUIRE(!alone.front().settings.shifting, InvalidArgument,
                   "{}: shifting: true corrects the bias of a linear layer of the blocks; this has none",
                   parameter.module);
    NIBBLE_REQUIRE(
        !alone.front().settings.output_hessian, InvalidArgument,
        "{}: output_hessian: true needs the statistic 'output-hessian', which there is of linear layers of "
        "the blocks only: the head's outputs are the whole vocabulary; say output_hessian: false by the rule "
        "that names it",
        parameter.module);
    // A tied embedding is measured where it is multiplied with: as the head.
    if (parameter.role == model::Role::kEmbedding && architecture_.head.tied)
      alone.front().layer = architecture_.head.linear;
    add_weight(std::move(alone));
  }

  // A weight in one or several parts: a plain float16 tensor as it lies if that is what all of them are.
  void add_weight(std::vector<QuantizeItem> parts) {
    const model::Parameter& first = parts.front().layer;
    const auto narrow = narrow_.find(first.weight.tensor);
    const std::string stored =
        narrow ? narrow->tensor
               : model::find_tensor_name(*checkpoint_, first.weight.tensor).value_or(first.module + ".weight");
    taken_.insert(stored);
    const bool plain =
        std::all_of(parts.begin(), parts.end(), [](const QuantizeItem& part) { return !part.settings.coded(); });
    for (const QuantizeItem& part : parts) {
      require_divisible(part.identity.name, part.settings, part.source->cols());
      plan_.parameters += part.weights();
    }
    if (plain) {
      WeightIdentity whole = parts.front().identity;
      whole.name = without_suffix(first.weight.tensor);
      CopyItem copy = narrow ? decoded(*narrow, first.weight) : CopyItem{.tensor = checkpoint_->tensor(stored)};
      copy.name = first.weight.tensor;
      copy.round_to_f16 = true;
      copy.reported = std::move(whole);
      plan_.copies.push_back(std::move(copy));
    } else {
      std::move(parts.begin(), parts.end(), std::back_inserter(plan_.items));
    }
  }

  // All of a tensor that is stored as narrow floats, in the shape that the architecture gives it.
  CopyItem decoded(const model::NarrowTensor& narrow, const model::Stored& place) const {
    CopyItem copy;
    // Narrow floats have few bits and a wide range; blocks give finer values, about as fine as float16's.
    const bool encoded = narrow.kind == model::NarrowTensor::Kind::kEncoded;
    copy.tensor = {narrow.tensor, encoded ? DType::kF16 : DType::kBF16, place.shape(), {}};
    copy.transposed = place.transposed;
    model::Stored slice = place;
    for (slice.slice = 0; slice.slice < std::max<std::size_t>(1, place.slices); ++slice.slice)
      copy.decoded.push_back(narrow_.source(checkpoint_, narrow, slice));
    return copy;
  }

  static std::string without_suffix(const std::string& tensor) {
    constexpr std::string_view kWeight = ".weight";
    return tensor.ends_with(kWeight) ? tensor.substr(0, tensor.size() - kWeight.size()) : tensor;
  }

  void add_rest() {
    const model::TensorNames tensor_names(architecture_);
    std::map<std::string, double> offsets;
    for (const model::NormSpec* norm : model::norms(architecture_))
      if (norm->gain) offsets[norm->gain->tensor] = norm->gain_offset;
    std::map<std::string, const model::Parameter*> matrices;
    for (const model::Parameter* matrix : model::matrices(architecture_)) matrices[matrix->weight.tensor] = matrix;
    std::set<std::string, std::less<>> coded, names;
    for (const QuantizeItem& item : plan_.items)
      if (item.settings.coded()) coded.insert(item.identity.name);
    for (const std::string& stored : checkpoint_->tensor_names()) {
      if (taken_.contains(stored) || architecture_.is_ignored(stored)) continue;
      // Parts of a narrow tensor of the network are that tensor; of another, nobody knows the shape: they stay parts.
      const auto part = narrow_.part_of(stored);
      if (part && (taken_.contains(part->tensor) || part->kind == model::NarrowPart::Kind::kActivationScale)) continue;
      const auto matrix = part ? matrices.find(tensor_names.canonical(part->tensor)) : matrices.end();
      const bool is_narrow = matrix != matrices.end();
      if (is_narrow && part->kind != model::NarrowPart::Kind::kCodes) continue;
      const std::string name = is_narrow ? matrix->first : tensor_names.canonical(stored);
      if (architecture_.head.tied && name == architecture_.head.linear.module + ".weight") continue;
      // Whoever opens the output would take it for a part of the codes' weight (NAME.scale); what the network does not
      // ask for is left out there, as is said of it.
      const std::string_view module = std::string_view(name).substr(0, std::min(name.rfind('.'), name.size()));
      if ((!name.ends_with(".bias") && coded.contains(module)) || name.ends_with(".codes")) continue;
      NIBBLE_REQUIRE(names.insert(name).second && (name == stored || !taken_.contains(name)), FormatError,
                     "checkpoint '{}': tensor '{}' is there with and without '{}'", checkpoint_->directory().string(),
                     name, architecture_.prefix);
      CopyItem copy = is_narrow ? decoded(*narrow_.find(part->tensor), matrix->second->weight)
                                : CopyItem{.tensor = checkpoint_->tensor(stored)};
      copy.name = name;
      plan_.parameters += copy.tensor.element_count();
      copy.round_to_f16 = is_float(copy.tensor.dtype) && rounds_to_f16(name);
      if (const auto offset = offsets.find(name); offset != offsets.end()) copy.offset = offset->second;
      plan_.copies.push_back(std::move(copy));
    }
  }

  std::shared_ptr<const model::Checkpoint> checkpoint_;
  const model::Architecture& architecture_;
  const Recipe& recipe_;
  std::unique_ptr<model::WeightProvider> provider_;
  model::NarrowTensors narrow_;
  std::vector<bool> rule_used_;
  std::set<std::string> taken_;  // stored names that are weights of `items` or `copies`
  std::size_t order_ = 0;
  Plan plan_;
};

}  // namespace

Plan make_plan(const std::shared_ptr<const model::Checkpoint>& checkpoint, const model::Architecture& architecture,
               const Recipe& recipe) {
  return Planner(checkpoint, architecture, recipe).make();
}

}  // namespace nibble::quant

#include "quant/store/model_weights.h"

#include <algorithm>

#include "core/error.h"
#include "quant/kernels/packing/packed_weight.h"

namespace nibble::quant {
namespace {

// Parts are named P.suffix; P.bias is the bias of the layer, and P.q.suffix belongs to another weight.
std::vector<model::TensorView> part_views(const model::Checkpoint& checkpoint, const std::string& module) {
  std::vector<model::TensorView> views;
  const auto& names = checkpoint.tensor_names();
  const std::string prefix = module + ".";
  for (auto name = std::lower_bound(names.begin(), names.end(), prefix); name != names.end(); ++name) {
    if (!name->starts_with(prefix)) break;
    const std::string suffix = name->substr(prefix.size());
    if (suffix == "bias" || suffix.find('.') != std::string::npos) continue;
    NIBBLE_REQUIRE(suffix != "weight", FormatError, "checkpoint '{}': '{}' is there both quantized and as float",
                   checkpoint.directory().string(), module);
    views.push_back(checkpoint.tensor(*name));
  }
  return views;
}

QuantizedTensor checked_tensor(const std::shared_ptr<const model::Checkpoint>& checkpoint, const std::string& module,
                               const TensorSpec& spec, const std::vector<model::TensorView>& views) {
  std::vector<TensorPart> parts;
  for (const model::TensorView& view : views)
    parts.push_back({view.name.substr(module.size() + 1), view.dtype, view.shape, view.data, checkpoint});
  QuantizedTensor tensor(module, spec, std::move(parts));
  for (const model::TensorView& view : views) checkpoint->check_intact(view);
  return tensor;
}

// Quantized weights where there are some, float ones elsewhere.
class ModelWeights final : public model::WeightProvider {
 public:
  ModelWeights(std::shared_ptr<const model::Checkpoint> checkpoint, QuantizedWeights quantized,
               const LoadOptions& options)
      : options_(options),
        directory_(checkpoint->directory().string()),
        floats_(model::make_float_provider(std::move(checkpoint))),
        quantized_(std::move(quantized)) {}

  bool contains(const std::string& tensor) const override { return floats_->contains(tensor); }
  std::vector<float> vector(const model::Stored& stored) const override { return floats_->vector(stored); }

  std::shared_ptr<const WeightSource> matrix(const model::Parameter& parameter) const override {
    const auto found = quantized_.find(parameter.weight_module);
    if (found == quantized_.end()) return floats_->matrix(parameter);
    NIBBLE_REQUIRE(found->second->rows() == parameter.out && found->second->cols() == parameter.in, FormatError,
                   "checkpoint '{}': '{}': expected a ({}, {}) weight after config.json, got ({}, {})", directory_,
                   parameter.weight_module, parameter.out, parameter.in, found->second->rows(), found->second->cols());
    return found->second;
  }

  std::unique_ptr<LinearOp<float>> linear(const model::Parameter& parameter) const override {
    std::vector<float> bias = model::bias_of(parameter, *this);
    auto source = matrix(parameter);
    if (!options_.packed) return std::make_unique<DecodingLinear>(std::move(source), std::move(bias));
    const auto found = quantized_.find(parameter.weight_module);
    if (found == quantized_.end() || !can_pack(found->second->tensor()))
      return make_float_linear(std::move(source), std::move(bias), options_.compute);
    const MappedQuantizedWeight& weight = *found->second;
    auto packed = make_packed_linear(weight.tensor(), std::move(bias), options_.compute);
    weight.check_intact();
    weight.release();
    return packed;
  }

 private:
  LoadOptions options_;
  std::string directory_;
  std::unique_ptr<model::WeightProvider> floats_;
  QuantizedWeights quantized_;
};

}  // namespace

MappedQuantizedWeight::MappedQuantizedWeight(std::shared_ptr<const model::Checkpoint> checkpoint,
                                             const std::string& module, const StoredTensor& stored)
    : checkpoint_(std::move(checkpoint)),
      stored_(stored),
      views_(part_views(*checkpoint_, module)),
      tensor_(checked_tensor(checkpoint_, module, stored.spec, views_)) {}

void MappedQuantizedWeight::decode_rows(std::size_t begin, std::size_t end, float* destination) const {
  tensor_.decode_rows(begin, end, destination);
  check_intact();
}

void MappedQuantizedWeight::check_intact() const {
  for (const model::TensorView& view : views_) checkpoint_->check_intact(view);
}

void MappedQuantizedWeight::release() const {
  for (const model::TensorView& view : views_) checkpoint_->release(view);
}

std::string config_place(const model::Checkpoint& checkpoint) {
  return fmt::format("config.json of checkpoint '{}'", checkpoint.directory().string());
}

QuantizedWeights open_quantized_weights(const std::shared_ptr<const model::Checkpoint>& checkpoint) {
  QuantizedWeights weights;
  const auto config = parse_quantization_config(checkpoint->metadata(), config_place(*checkpoint));
  if (!config) return weights;
  for (const auto& [module, stored] : config->tensors)
    weights.emplace(module, std::make_shared<const MappedQuantizedWeight>(checkpoint, module, stored));
  for (const std::string& name : checkpoint->tensor_names()) {
    constexpr std::string_view kCodes = ".codes";
    NIBBLE_REQUIRE(!name.ends_with(kCodes) || weights.contains(name.substr(0, name.size() - kCodes.size())),
                   FormatError, "checkpoint '{}': '{}' has no entry in quantization_config",
                   checkpoint->directory().string(), name);
  }
  return weights;
}

bool is_quantized_part(const QuantizedWeights& weights, const std::string& name) {
  const auto dot = name.rfind('.');
  return dot != std::string::npos && name.substr(dot) != ".bias" && weights.contains(name.substr(0, dot));
}

std::unique_ptr<model::WeightProvider> make_weight_provider(std::shared_ptr<const model::Checkpoint> checkpoint,
                                                            QuantizedWeights quantized, const LoadOptions& options) {
  if (quantized.empty() && !options.packed) return model::make_float_provider(std::move(checkpoint));
  return std::make_unique<ModelWeights>(std::move(checkpoint), std::move(quantized), options);
}

std::unique_ptr<model::WeightProvider> make_weight_provider(std::shared_ptr<const model::Checkpoint> checkpoint) {
  auto quantized = open_quantized_weights(checkpoint);
  return make_weight_provider(std::move(checkpoint), std::move(quantized));
}

}  // namespace nibble::quant

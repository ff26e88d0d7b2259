#include "quant/store/model_weights.h"

#include <algorithm>

#include "core/error.h"
#include "quant/kernels/packed_weight.h"

namespace nibble::quant {
namespace {

constexpr const char* kAttentionParts[] = {".q", ".k", ".v"};

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

  bool contains(const std::string& tensor) const override {
    constexpr std::string_view kWeight = ".weight";
    if (!tensor.ends_with(kWeight)) return floats_->contains(tensor);
    const std::string module = tensor.substr(0, tensor.size() - kWeight.size());
    return floats_->contains(tensor) || quantized_.contains(module) || is_split(module);
  }

  std::vector<float> vector(const std::string& tensor, std::size_t size) const override {
    return floats_->vector(tensor, size);
  }

  std::shared_ptr<const WeightSource> matrix(const std::string& module, std::size_t out, std::size_t in,
                                             bool conv1d) const override {
    if (is_split(module)) {
      std::vector<std::shared_ptr<const WeightSource>> parts;
      for (const char* part : kAttentionParts) parts.push_back(matrix(module + part, out / 3, in, false));
      return model::make_stacked_source(std::move(parts));
    }
    const auto found = quantized_.find(module);
    if (found == quantized_.end()) return floats_->matrix(module, out, in, conv1d);
    NIBBLE_REQUIRE(found->second->rows() == out && found->second->cols() == in, FormatError,
                   "checkpoint '{}': '{}': expected a ({}, {}) weight after config.json, got ({}, {})", directory_,
                   module, out, in, found->second->rows(), found->second->cols());
    return found->second;
  }

  std::unique_ptr<LinearOp<float>> linear(const std::string& module, std::size_t out, std::size_t in,
                                          bool conv1d) const override {
    const std::string bias_name = module + ".bias";
    auto bias = floats_->contains(bias_name) ? floats_->vector(bias_name, out) : std::vector<float>{};
    if (options_.packed) return packed_linear(module, out, in, conv1d, std::move(bias));
    return std::make_unique<DecodingLinear>(matrix(module, out, in, conv1d), std::move(bias));
  }

 private:
  std::unique_ptr<LinearOp<float>> packed_linear(const std::string& module, std::size_t out, std::size_t in,
                                                 bool conv1d, std::vector<float> bias) const {
    if (is_split(module)) {
      std::vector<std::unique_ptr<LinearOp<float>>> parts;
      const std::size_t width = out / std::size(kAttentionParts);
      for (std::size_t i = 0; i < std::size(kAttentionParts); ++i) {
        const auto first = bias.begin() + static_cast<std::ptrdiff_t>(bias.empty() ? 0 : i * width);
        std::vector<float> share(first, bias.empty() ? first : first + static_cast<std::ptrdiff_t>(width));
        parts.push_back(packed_linear(module + kAttentionParts[i], width, in, false, std::move(share)));
      }
      return make_stacked_linear(std::move(parts));
    }
    auto source = matrix(module, out, in, conv1d);
    const auto found = quantized_.find(module);
    if (found == quantized_.end()) return make_float_linear(std::move(source), std::move(bias), options_.compute);
    const MappedQuantizedWeight& weight = *found->second;
    if (!can_pack(weight.tensor().spec()))
      return make_float_linear(std::move(source), std::move(bias), options_.compute);
    auto packed = make_packed_linear(weight.tensor(), std::move(bias), options_.compute);
    weight.check_intact();
    weight.release();
    return packed;
  }

  bool is_split(const std::string& module) const {
    return std::any_of(std::begin(kAttentionParts), std::end(kAttentionParts),
                       [&](const char* part) { return quantized_.contains(module + part); });
  }

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
  const auto config = parse_quantization_config(checkpoint->config_text(), config_place(*checkpoint));
  if (config)
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

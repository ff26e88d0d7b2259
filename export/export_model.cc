#include "export/export_model.h"

#include <algorithm>
#include <set>

#include "core/checked_math.h"
#include "core/error.h"
#include "model/checkpoint/narrow_tensors.h"
#include "model/open/open_model.h"

namespace nibble::exporting {
namespace {

using model::Parameter;
using model::Stored;

// How a matrix that is not coded lies: floats, or what another program stored (blocks, narrow floats with scales),
// which is decoded to floats and, where it is written as such, rounded to float16.
struct Floats {
  DType dtype = DType::kF16;
  std::string foreign = {};
};

Floats floats_of(const model::Checkpoint& checkpoint, const model::NarrowTensors& narrow, const Parameter& parameter) {
  for (const std::string& name : {parameter.weight_module + ".weight", parameter.weight.tensor}) {
    if (const auto found = narrow.find(name)) {
      const auto dtype = dtype_from_name(found->storage());  // rows that another program moved, but left as they were
      if (dtype && is_float(*dtype)) return {.dtype = *dtype};
      return {.dtype = DType::kF16, .foreign = found->storage()};
    }
    if (const auto stored = model::find_tensor_name(checkpoint, name)) {
      const DType dtype = checkpoint.tensor(*stored).dtype;
      return {.dtype = is_float(dtype) ? dtype : DType::kF16};
    }
  }
  return {.dtype = DType::kF32};
}

// Every vector of the network: gains and biases of norms, loose ones, biases of layers that have one here.
std::vector<Stored> vectors_of(const model::Architecture& architecture, const model::WeightProvider& weights) {
  std::vector<Stored> all;
  for (const model::NormSpec* norm : model::norms(architecture)) {
    if (norm->gain) all.push_back(*norm->gain);
    all.insert(all.end(), norm->group_gains.begin(), norm->group_gains.end());
    if (norm->bias) all.push_back(*norm->bias);
  }
  for (const model::BlockSpec& block : architecture.blocks)
    for (const model::LooseVector& vector : model::loose_vectors(block)) all.push_back(vector.values);
  for (const Parameter* p : model::bias_holders(architecture))
    if (!p->bias.tensor.empty() && (p->biased || weights.contains(p->bias.tensor))) all.push_back(p->bias);
  return all;
}

}  // namespace

ExportModel::ExportModel(const std::filesystem::path& path)
    : checkpoint_(model::open_checkpoint(path)), architecture_(&checkpoint_->architecture()) {
  quant::QuantizedWeights quantized = quant::open_quantized_weights(checkpoint_);
  weights_ = quant::make_weight_provider(checkpoint_, quantized);
  const model::NarrowTensors narrow(*checkpoint_);
  for (const Parameter* p : model::matrices(architecture())) {
    ExportPart part{.parameter = p, .values = weights_->matrix(*p), .coded = {}, .storage = {}};
    const auto found = quantized.find(p->weight_module);
    if (found != quantized.end()) {
      part.coded = found->second;
      part.storage = storage_of(*found->second);
    } else {
      const Floats floats = floats_of(*checkpoint_, narrow, *p);
      part.dtype = floats.dtype;
      part.storage = {.bits = static_cast<unsigned>(8 * dtype_size(part.dtype)),
                      .rows = p->out,
                      .cols = p->in,
                      .foreign = floats.foreign};
    }
    part.storage.set_purpose(architecture(), *p);
    parts_.push_back(std::move(part));
  }
  add_tensors();
}

ExportModel::ExportModel(std::shared_ptr<const model::Checkpoint> checkpoint, const model::Architecture& architecture,
                         std::unique_ptr<model::WeightProvider> weights)
    : checkpoint_(std::move(checkpoint)), architecture_(&architecture), weights_(std::move(weights)) {
  for (const Parameter* p : model::matrices(architecture))
    parts_.push_back({.parameter = p,
                      .values = weights_->matrix(*p),
                      .coded = {},
                      .storage = {.bits = 32, .rows = p->out, .cols = p->in, .foreign = {}, .role = p->role}});
  add_tensors();
}

void ExportModel::add_tensors() {
  add_matrices();
  add_vectors();
  add_missing_biases();
  std::sort(tensors_.begin(), tensors_.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
}

void ExportModel::add_matrices() {
  std::map<std::string, std::size_t> index;
  for (const ExportPart& part : parts_) {
    const Stored& place = part.parameter->weight;
    const auto [found, added] = index.try_emplace(place.tensor, tensors_.size());
    if (added) tensors_.push_back({.name = place.tensor, .shape = place.shape(), .parts = {}, .vectors = {}});
    tensors_[found->second].parts.push_back(&part);
  }
}

void ExportModel::add_vectors() {
  std::map<std::string, std::size_t> index;
  std::set<std::string> wide;
  for (const model::BlockSpec& block : architecture().blocks)
    if (block.experts && block.experts->correction) wide.insert(block.experts->correction->tensor);
  for (const Stored& stored : vectors_of(architecture(), *weights_)) {
    const auto [found, added] = index.try_emplace(stored.tensor, tensors_.size());
    if (added)
      tensors_.push_back({.name = stored.tensor,
                          .shape = stored.shape(),
                          .parts = {},
                          .vectors = {},
                          .wide = wide.contains(stored.tensor)});
    auto& pieces = tensors_[found->second].vectors;
    if (std::find(pieces.begin(), pieces.end(), stored) == pieces.end()) pieces.push_back(stored);
  }
}

// A model has biases for all layers of a kind or for none: where shifting gave some to a few, the others get zeros.
void ExportModel::add_missing_biases() {
  const auto layers = model::linear_layers(architecture());
  for (const bool attention : {true, false}) {
    const std::string& key = attention ? architecture().attention_bias_key : architecture().mlp_bias_key;
    if (key.empty()) continue;
    const auto has_key = [&](const Parameter* layer) {
      return model::is_attention(*layer) == attention && !architecture().bias_key(*layer).empty();
    };
    const bool some = std::any_of(layers.begin(), layers.end(), [&](const Parameter* layer) {
      return has_key(layer) && (layer->biased || weights_->contains(layer->bias.tensor));
    });
    bias_flags_[key] = some;
    std::set<std::string> there;
    for (const ExportTensor& tensor : tensors_) there.insert(tensor.name);
    for (const Parameter* layer : layers) {
      if (!some || !has_key(layer) || !there.insert(layer->bias.tensor).second) continue;
      tensors_.push_back({.name = layer->bias.tensor,
                          .shape = layer->bias.shape(),
                          .parts = {},
                          .vectors = {layer->bias},
                          .zeros = true});
    }
  }
}

std::vector<float> ExportModel::vector_values(const ExportTensor& tensor) const {
  NIBBLE_REQUIRE(!tensor.vectors.empty(), InvalidArgument, "'{}' holds matrices", tensor.name);
  std::vector<float> values(checked_element_count(tensor.shape, tensor.name), 0.0f);
  if (tensor.zeros) return values;
  for (const Stored& stored : tensor.vectors) {
    const std::vector<float> piece = weights_->vector(stored);
    for (std::size_t i = 0; i < piece.size(); ++i) values[stored.slice * stored.rows + stored.part.row(i)] = piece[i];
  }
  return values;
}

bool announces_bias(const model::Architecture& architecture, const Parameter& layer) {
  return layer.biased || !architecture.bias_key(layer).empty();
}

std::vector<const Parameter*> unannounced_biases(const ExportModel& model) {
  std::vector<const Parameter*> layers;
  for (const Parameter* layer : model::linear_layers(model.architecture()))
    if (!announces_bias(model.architecture(), *layer) && model.weights().contains(layer->bias.tensor))
      layers.push_back(layer);
  return layers;
}

std::vector<RowOrigin> row_origins(const ExportTensor& tensor, std::size_t slice) {
  std::vector<RowOrigin> origins(tensor.parts.front()->parameter->weight.rows);
  for (const ExportPart* part : tensor.parts) {
    const Stored& place = part->parameter->weight;
    if (place.slice != slice) continue;
    for (std::size_t i = 0; i < place.part.count; ++i) origins[place.part.row(i)] = {part, i};
  }
  return origins;
}

}  // namespace nibble::exporting

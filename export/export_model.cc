#include "export/export_model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "core/checked_math.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/output_directory.h"
#include "model/checkpoint/narrow_tensors.h"
#include "model/checkpoint/safetensors_writer.h"
#include "quant/job/copy_tensor.h"
#include "quant/store/model_size.h"
#include "quant/store/model_weights.h"

namespace nibble::quant {
namespace {

using model::SafetensorsWriter;

// One tensor of the exported file: what the header says, and how its bytes are made.
struct ExportedTensor {
  model::TensorDeclaration declaration;
  std::function<void(SafetensorsWriter&)> append;
};
using ExportedTensors = std::map<std::string, ExportedTensor>;

bool is_attention(const model::Parameter& layer) {
  using model::Role;
  return layer.role == Role::kQ || layer.role == Role::kK || layer.role == Role::kV || layer.role == Role::kO;
}

void append_f16(const std::string& name, std::span<const float> values, SafetensorsWriter& writer) {
  std::vector<std::uint16_t> halves(values.size());
  convert_to_f16(values, halves.data());
  for (std::size_t i = 0; i < values.size(); ++i)
    NIBBLE_REQUIRE(std::isfinite(f16_to_f32(halves[i])), NumericalError,
                   "{}: {} at index {} is too large for float16 (at most 65504)", name, values[i], i);
  writer.write(std::as_bytes(std::span(halves)));
}

/// A tensor of the architecture and the layers that lie in it.
struct Composed {
  std::vector<const model::Parameter*> parts;
  std::vector<std::shared_ptr<const WeightSource>> sources;
};

// One matrix of the tensor (the whole of it, unless it is a stack), as (out, in).
Matrix<float> compose_slice(const Composed& composed, std::size_t slice) {
  const model::Stored& place = composed.parts.front()->weight;
  Matrix<float> whole(place.rows, place.cols);
  for (std::size_t p = 0; p < composed.parts.size(); ++p) {
    const model::Stored& stored = composed.parts[p]->weight;
    if (stored.slice != slice) continue;
    for (std::size_t i = 0; i < stored.part.count; ++i)
      composed.sources[p]->decode_rows(i, i + 1, whole.row(stored.part.row(i)).data());
    composed.sources[p]->release();
  }
  return whole;
}

void append_composed(const std::string& name, const Composed& composed, SafetensorsWriter& writer) {
  const model::Stored& place = composed.parts.front()->weight;
  for (std::size_t slice = 0; slice < std::max<std::size_t>(place.slices, 1); ++slice) {
    const Matrix<float> w = compose_slice(composed, slice);
    if (!place.transposed) {
      append_f16(name, w.values(), writer);
      continue;
    }
    std::vector<float> column(place.rows);
    for (std::size_t j = 0; j < place.cols; ++j) {
      for (std::size_t i = 0; i < place.rows; ++i) column[i] = w(i, j);
      append_f16(name, column, writer);
    }
  }
}

// Biases for every layer of a kind of which shifting gave some to: a model has them all or none.
void add_missing_biases(const model::Checkpoint& checkpoint, const model::Architecture& architecture, bool attention,
                        bool mlp, ExportedTensors& tensors) {
  for (const model::Parameter* layer : model::linear_layers(architecture)) {
    const std::string& name = layer->bias.tensor;
    if (!(is_attention(*layer) ? attention : mlp) || checkpoint.contains(name)) continue;
    const std::vector<std::uint64_t> shape = layer->bias.shape();
    const std::size_t size = checked_element_count(shape, name);
    tensors[name] = {{name, DType::kF16, shape},
                     [=](SafetensorsWriter& writer) { append_f16(name, std::vector<float>(size), writer); }};
  }
}

ExportedTensors exported_tensors(const std::shared_ptr<const model::Checkpoint>& checkpoint,
                                 const model::Architecture& architecture, const QuantizedWeights& quantized) {
  const std::shared_ptr<model::WeightProvider> weights = make_weight_provider(checkpoint, quantized);
  const model::NarrowTensors narrow(*checkpoint);
  std::map<std::string, std::shared_ptr<Composed>> composed;
  std::set<std::string> used;  // names of the checkpoint that are in one of them
  for (const model::Parameter* p : model::matrices(architecture)) {
    if (model::find_tensor_name(*checkpoint, p->weight.tensor) && !narrow.find(p->weight.tensor)) continue;
    auto& tensor = composed[p->weight.tensor];
    if (!tensor) tensor = std::make_shared<Composed>();
    tensor->parts.push_back(p);
    tensor->sources.push_back(weights->matrix(*p));
    used.insert(p->weight_module + ".weight");
  }
  ExportedTensors tensors;
  for (const auto& [name, tensor] : composed)
    tensors[name] = {
        {name, DType::kF16, tensor->parts.front()->weight.shape()},
        [name = name, tensor = tensor](SafetensorsWriter& writer) { append_composed(name, *tensor, writer); }};
  for (const std::string& name : checkpoint->tensor_names()) {
    if (used.contains(name) || is_quantized_part(quantized, name) || architecture.is_ignored(name)) continue;
    if (narrow.part_of(name)) continue;
    const auto item = std::make_shared<CopyItem>();
    item->tensor = checkpoint->tensor(name);
    item->name = name;
    item->round_to_f16 = is_float(item->tensor.dtype);
    tensors[name] = {declaration(*item),
                     [item, checkpoint](SafetensorsWriter& writer) { append_copy(*item, *checkpoint, writer); }};
  }
  return tensors;
}

// Whether some layer of a kind has a bias, by the configuration or by shifting.
bool has_bias(const model::Checkpoint& checkpoint, const model::Architecture& architecture, bool attention) {
  const auto layers = model::linear_layers(architecture);
  return std::any_of(layers.begin(), layers.end(), [&](const model::Parameter* layer) {
    return is_attention(*layer) == attention && (layer->biased || checkpoint.contains(layer->bias.tensor));
  });
}

}  // namespace

void export_dequantized(const std::filesystem::path& model, const std::filesystem::path& output, bool overwrite,
                        const ProgressSink& progress) {
  const auto checkpoint = model::Checkpoint::open(model);
  const model::Architecture& architecture = checkpoint->architecture();
  const QuantizedWeights quantized = open_quantized_weights(checkpoint);
  const std::string place = config_place(*checkpoint);
  NIBBLE_REQUIRE(parse_quantization_config(checkpoint->metadata(), place) ||
                     model::parse_narrow_config(checkpoint->metadata(), place),
                 InvalidArgument, "checkpoint '{}' is not quantized: there is nothing to decode", model.string());
  std::error_code error;
  NIBBLE_REQUIRE(!std::filesystem::equivalent(model, output, error), InvalidArgument, "output '{}' is the model itself",
                 output.string());

  ExportedTensors tensors = exported_tensors(checkpoint, architecture, quantized);
  std::map<std::string, bool> flags;
  const bool attention_bias = has_bias(*checkpoint, architecture, true),
             mlp_bias = has_bias(*checkpoint, architecture, false);
  if (!architecture.attention_bias_key.empty()) flags[architecture.attention_bias_key] = attention_bias;
  if (!architecture.mlp_bias_key.empty()) flags[architecture.mlp_bias_key] = mlp_bias;
  add_missing_biases(*checkpoint, architecture, attention_bias && flags.contains(architecture.attention_bias_key),
                     mlp_bias && flags.contains(architecture.mlp_bias_key), tensors);

  OutputDirectory directory(output, overwrite, "nibble export, dequantized");
  std::vector<model::TensorDeclaration> declarations;
  for (const auto& [name, tensor] : tensors) declarations.push_back(tensor.declaration);
  SafetensorsWriter writer(directory.partial() / "model.safetensors", std::move(declarations), {{"format", "pt"}});
  double done = 0.0;
  for (const auto& [name, tensor] : tensors) {
    tensor.append(writer);
    if (progress) progress({"exporting", ++done, static_cast<double>(tensors.size()), "tensors"});
  }
  writer.commit();
  directory.add_text("config.json", as_float16_config(checkpoint->metadata(), flags));
  directory.add_companions(model);
  directory.publish();
}

}  // namespace nibble::quant

#include "export/export_model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "core/dtype.h"
#include "core/error.h"
#include "core/output_directory.h"
#include "model/checkpoint/safetensors_writer.h"
#include "model/checkpoint/tensor_checks.h"
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

std::vector<float> transposed(const std::vector<float>& w, std::size_t rows, std::size_t cols) {
  std::vector<float> result(w.size());
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < cols; ++c) result[c * rows + r] = w[r * cols + c];
  return result;
}

void append_f16(const std::string& name, const std::vector<float>& values, SafetensorsWriter& writer) {
  std::vector<std::uint16_t> halves(values.size());
  convert_to_f16(values, halves.data());
  for (std::size_t i = 0; i < values.size(); ++i)
    NIBBLE_REQUIRE(std::isfinite(f16_to_f32(halves[i])), NumericalError,
                   "{}: {} at index {} is too large for float16 (at most 65504)", name, values[i], i);
  writer.write(std::as_bytes(std::span(halves)));
}

// A decoded weight, in the orientation that other tools expect.
void add_decoded(const std::string& module, std::shared_ptr<const WeightSource> source, bool conv1d,
                 ExportedTensors& tensors) {
  const std::string name = module + ".weight";
  const std::size_t rows = source->rows(), cols = source->cols();
  const auto shape = conv1d ? std::vector<std::uint64_t>{cols, rows} : std::vector<std::uint64_t>{rows, cols};
  tensors[name] = {{name, DType::kF16, shape}, [=](SafetensorsWriter& writer) {
                     std::vector<float> w(rows * cols);
                     source->decode_rows(0, rows, w.data());
                     append_f16(name, conv1d ? transposed(w, rows, cols) : w, writer);
                     source->release();
                   }};
}

// Biases for every layer of a kind of which shifting gave some to: a model has them all or none.
void add_missing_biases(const model::Checkpoint& checkpoint, const model::Config& config, bool attention, bool mlp,
                        ExportedTensors& tensors) {
  for (const model::LinearLayer& layer : model::linear_layers(config)) {
    const std::string name = layer.module + ".bias";
    const bool wanted = layer.module.find("attn.") != std::string::npos ? attention : mlp;
    if (!wanted || checkpoint.contains(name)) continue;
    tensors[name] = {{name, DType::kF16, {layer.out}},
                     [=](SafetensorsWriter& writer) { append_f16(name, std::vector<float>(layer.out), writer); }};
  }
}

ExportedTensors exported_tensors(const std::shared_ptr<const model::Checkpoint>& checkpoint,
                                 const model::Config& config, const QuantizedWeights& quantized) {
  ExportedTensors tensors;
  const auto weights = make_weight_provider(checkpoint, quantized);
  const auto is_part_of = [](const std::string& name, const std::string& module) {
    return name.starts_with(module + ".");
  };
  std::vector<std::string> split;  // c_attn's that are stored as q, k, v
  for (const model::LinearLayer& layer : model::linear_layers(config)) {
    const bool in_parts = quantized.lower_bound(layer.module + ".") != quantized.end() &&
                          is_part_of(quantized.lower_bound(layer.module + ".")->first, layer.module);
    if (!in_parts && !quantized.contains(layer.module)) continue;
    if (in_parts) split.push_back(layer.module);
    add_decoded(layer.module, weights->matrix(layer.module, layer.out, layer.in, layer.conv1d), layer.conv1d, tensors);
  }
  for (const std::string module : {"wte", "wpe", "model.embed_tokens", "lm_head"})
    if (const auto found = quantized.find(module); found != quantized.end())
      add_decoded(module, found->second, false, tensors);
  for (const std::string& name : checkpoint->tensor_names()) {
    const bool fused = std::any_of(split.begin(), split.end(), [&](const std::string& module) {
      return is_part_of(name, module) && name != module + ".bias";
    });
    if (fused || is_quantized_part(quantized, name) || model::is_ignored_buffer(name)) continue;
    model::TensorView view = checkpoint->tensor(name);
    const bool round = is_float(view.dtype);
    const auto item = std::make_shared<const CopyItem>(CopyItem{std::move(view), name, round, {}, std::nullopt});
    tensors[name] = {declaration(*item),
                     [item, checkpoint](SafetensorsWriter& writer) { append_copy(*item, *checkpoint, writer); }};
  }
  return tensors;
}

}  // namespace

void export_dequantized(const std::filesystem::path& model, const std::filesystem::path& output, bool overwrite,
                        const ProgressSink& progress) {
  const auto checkpoint = model::Checkpoint::open(model);
  const model::Config config = model::parse_config(checkpoint->config_text(), config_place(*checkpoint));
  const QuantizedWeights quantized = open_quantized_weights(checkpoint);
  NIBBLE_REQUIRE(parse_quantization_config(checkpoint->config_text(), config_place(*checkpoint)), InvalidArgument,
                 "checkpoint '{}' is not quantized: there is nothing to decode", model.string());
  std::error_code error;
  NIBBLE_REQUIRE(!std::filesystem::equivalent(model, output, error), InvalidArgument, "output '{}' is the model itself",
                 output.string());

  ExportedTensors tensors = exported_tensors(checkpoint, config, quantized);
  bool attention_bias = config.attention_bias, mlp_bias = config.mlp_bias;
  for (const std::string& bias : added_biases(*checkpoint, config))
    (bias.find("attn.") != std::string::npos ? attention_bias : mlp_bias) = true;
  add_missing_biases(*checkpoint, config, attention_bias, mlp_bias, tensors);

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
  directory.add_text("config.json",
                     as_float16_config(checkpoint->config_text(), config.family, attention_bias, mlp_bias));
  directory.add_companions(model);
  directory.publish();
}

}  // namespace nibble::quant

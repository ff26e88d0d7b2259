#include <map>

#include "core/checked_math.h"
#include "core/output_file.h"
#include "export/exporter.h"
#include "export/float_tensors.h"
#include "model/checkpoint/safetensors_writer.h"
#include "model/open/companions.h"
#include "quant/store/quantization_config.h"

namespace nibble::exporting {
namespace {

Fit fit(const Storage&) { return {Fit::Kind::kFloats, "decoded to floats", {}}; }

// Plain safetensors in the family's own layout. config.json loses its quantization_config, and says the type of the
// floats and where biases were added.
Written write(const ExportPlan& plan, const std::filesystem::path& output, const ProgressSink& progress) {
  const ExportModel& model = plan.model;
  const DType dtype = plan.options.dtype.value_or(DType::kF16);
  std::vector<model::TensorDeclaration> declarations;
  for (const ExportTensor& tensor : model.tensors()) declarations.push_back({tensor.name, dtype, tensor.shape});
  model::SafetensorsWriter writer(output / "model.safetensors", declarations, {{"format", "pt"}});
  Written written;
  double done = 0.0;
  for (const ExportTensor& tensor : model.tensors()) {
    FloatEncoder encoder(tensor.name, dtype);
    for_values(model, tensor, [&](std::span<const float> values) { writer.write(encoder.encode(values)); });
    written.bytes += checked_element_count(tensor.shape, tensor.name) * dtype_size(dtype);
    if (progress) progress({"exporting", ++done, static_cast<double>(model.tensors().size()), "tensors"});
  }
  for (const model::Parameter* layer : model::linear_layers(model.architecture()))
    written.linear_bits += layer->weights() * dtype_size(dtype) * 8;
  writer.commit();
  write_file(output / "config.json", quant::as_float_config(model.checkpoint()->metadata(), dtype, model.bias_flags()));
  model::add_companions(model.checkpoint()->directory(), output);
  return written;
}

std::unique_ptr<model::WeightProvider> read(const std::filesystem::path& output, const ExportModel&) {
  return model::make_float_provider(model::Checkpoint::open(output));
}

}  // namespace

constinit const Exporter kDequantizedExporter{.name = "dequantized",
                                              .programs = "every program that reads Hugging Face directories",
                                              .takes_dtype = true,
                                              .fit = fit,
                                              .write = write,
                                              .read = read};

}  // namespace nibble::exporting

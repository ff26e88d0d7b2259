#include "export/float_directory.h"

#include "core/checked_math.h"
#include "core/files/output_file.h"
#include "export/float_tensors.h"
#include "model/architecture/tensor_names.h"
#include "model/checkpoint/safetensors_writer.h"
#include "model/open/companions.h"
#include "quant/store/quantization_config.h"

namespace nibble::exporting {

Written write_float_directory(const ExportModel& model, std::string_view config, DType dtype,
                              const std::filesystem::path& output, const ProgressSink& progress) {
  std::vector<model::TensorDeclaration> declarations;
  // A network without a head of its own keeps its names; beside one, transformers before version 5 wants the prefix.
  const model::Architecture& architecture = model.architecture();
  for (const ExportTensor& tensor : model.tensors())
    declarations.push_back({architecture.head.tied ? tensor.name : model::full_name(architecture, tensor.name),
                            dtype_in(tensor, dtype), tensor.shape});
  model::SafetensorsWriter writer(output / "model.safetensors", declarations, {{"format", "pt"}});
  Written written;
  double done = 0.0;
  for (const ExportTensor& tensor : model.tensors()) {
    FloatEncoder encoder(tensor.name, dtype_in(tensor, dtype));
    for_values(model, tensor, [&](std::span<const float> values) { writer.write(encoder.encode(values)); });
    written.bytes += checked_element_count(tensor.shape, tensor.name) * dtype_size(dtype_in(tensor, dtype));
    if (progress) progress({"exporting", ++done, static_cast<double>(model.tensors().size()), "tensors"});
  }
  for (const model::Parameter* layer : model::linear_layers(model.architecture()))
    written.linear_bits += layer->weights() * dtype_size(dtype) * 8;
  writer.commit();
  write_file(output / "config.json", quant::as_float_config(config, dtype, model.bias_flags()));
  model::add_companions(model.checkpoint()->directory(), output);
  return written;
}

}  // namespace nibble::exporting

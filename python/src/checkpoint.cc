#include "model/checkpoint/checkpoint.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/dtype.h"
#include "core/text/suggest.h"
#include "model/open/open_model.h"
#include "python/src/arrays.h"
#include "python/src/bindings.h"
#include "python/src/json.h"
#include "python/src/tensor.h"
#include "quant/store/model_size.h"
#include "quant/store/model_weights.h"

namespace nibble::python {
namespace {

using namespace nb::literals;

/// A checkpoint directory of either kind, and what is quantized in it.
struct PyCheckpoint {
  std::shared_ptr<const model::Checkpoint> checkpoint;
  quant::QuantizedWeights quantized;
  std::unique_ptr<model::WeightProvider> weights;
};

std::unique_ptr<PyCheckpoint> open_checkpoint(const std::filesystem::path& directory) {
  return unlocked([&] {
    auto opened = std::make_unique<PyCheckpoint>();
    opened->checkpoint = model::open_checkpoint(directory);
    opened->quantized = quant::open_quantized_weights(opened->checkpoint);
    opened->weights = quant::make_weight_provider(opened->checkpoint, opened->quantized);
    return opened;
  });
}

// numpy's name of a stored type; types that numpy lacks show as the integers that they are stored in.
const char* numpy_dtype(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "<f8";
    case DType::kF32:
      return "<f4";
    case DType::kF16:
      return "<f2";
    case DType::kBF16:
    case DType::kU16:
      return "<u2";
    case DType::kI64:
      return "<i8";
    case DType::kI32:
      return "<i4";
    case DType::kI16:
      return "<i2";
    case DType::kI8:
      return "i1";
    case DType::kU64:
      return "<u8";
    case DType::kU32:
      return "<u4";
    case DType::kBool:
      return "?";
    default:
      return "u1";
  }
}

nb::object stored_tensor(nb::handle_t<PyCheckpoint> self, const std::string& name) {
  const model::TensorView tensor = nb::cast<const PyCheckpoint&>(self).checkpoint->tensor(name);
  const nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>> bytes(
      reinterpret_cast<const std::uint8_t*>(tensor.data.data()), {tensor.data.size()}, self);
  const std::vector<std::size_t> shape(tensor.shape.begin(), tensor.shape.end());
  return nb::cast(bytes).attr("view")(numpy_dtype(tensor.dtype)).attr("reshape")(nb::tuple(nb::cast(shape)));
}

const model::Parameter& find_layer(const PyCheckpoint& self, const std::string& module) {
  const std::vector<const model::Parameter*> all = model::matrices(self.checkpoint->architecture());
  std::vector<std::string_view> names;
  for (const model::Parameter* parameter : all) {
    if (parameter->module == module || parameter->module + ".weight" == module) return *parameter;
    names.push_back(parameter->module);
  }
  throw InvalidArgument(fmt::format("'{}' has no layer '{}'{}", self.checkpoint->directory().string(), module,
                                    did_you_mean(module, names)));
}

NumpyMatrix<float> weight(const PyCheckpoint& self, const std::string& module) {
  constexpr std::size_t kRowTile = 64;
  const model::Parameter& parameter = find_layer(self, module);
  return to_numpy(unlocked([&] {
    const auto source = self.weights->matrix(parameter);
    Matrix<float> values(source->rows(), source->cols());
    parallel_for_tiles(source->rows(), kRowTile, [&](std::size_t begin, std::size_t end) {
      source->decode_rows(begin, end, values.row(begin).data());
    });
    return values;
  }));
}

Tensor quantized(const PyCheckpoint& self, const std::string& module) {
  const auto found = self.quantized.find(module);
  NIBBLE_REQUIRE(found != self.quantized.end(), InvalidArgument, "'{}' stores no codes for '{}'",
                 self.checkpoint->directory().string(), module);
  // The weight keeps checkpoint and views alive, which the tensor's parts point into.
  const auto& mapped = found->second;
  return {.stored = std::shared_ptr<const quant::QuantizedTensor>(mapped, &mapped->tensor()),
          .format = quant::storage_text(mapped->stored()),
          .bias_correction = {}};
}

nb::list layer_names(const PyCheckpoint& self) {
  nb::list names;
  for (const model::Parameter* layer : model::linear_layers(self.checkpoint->architecture()))
    names.append(layer->module);
  return names;
}

nb::dict layer_facts(const PyCheckpoint& self, const std::string& module) {
  const model::Parameter& parameter = find_layer(self, module);
  nb::dict facts;
  facts["module"] = parameter.module;
  facts["role"] = std::string(model::role_name(parameter.role));
  facts["block"] = parameter.block;
  facts["shape"] = nb::make_tuple(parameter.out, parameter.in);
  facts["biased"] = parameter.biased;
  facts["quantized"] = self.quantized.contains(parameter.module);
  return facts;
}

}  // namespace

void bind_checkpoint(nb::module_& module) {
  nb::class_<PyCheckpoint>(module, "Checkpoint",
                           "A checkpoint, float or quantized: mapped, checked, never loaded whole.")
      .def(nb::new_(&open_checkpoint), "path"_a)
      .def_prop_ro("path", [](const PyCheckpoint& self) { return self.checkpoint->directory(); })
      .def_prop_ro(
          "architecture", [](const PyCheckpoint& self) { return model::describe(self.checkpoint->architecture()); },
          "In words: family, layers, widths, heads")
      .def_prop_ro(
          "config", [](const PyCheckpoint& self) { return from_json(self.checkpoint->metadata()); },
          nb::sig("def config(self) -> dict[str, typing.Any]"), "config.json, or what stands for it")
      .def_prop_ro("vocabulary", [](const PyCheckpoint& self) { return self.checkpoint->architecture().vocabulary; })
      .def_prop_ro("max_positions",
                   [](const PyCheckpoint& self) { return self.checkpoint->architecture().max_positions; })
      .def_prop_ro("layers", &layer_names, nb::sig("def layers(self) -> list[str]"),
                   "The linear layers of the blocks, in order of use: the names of hooks, statistics and recipes.")
      .def("layer", &layer_facts, "module"_a, nb::sig("def layer(self, module: str) -> dict[str, typing.Any]"),
           "Role, block, shape (out, in), whether it has a bias and whether it is stored as codes.")
      .def(
          "weight", &weight, "module"_a,
          R"((out, in) float32: a linear layer, embedding or head, decoded whatever it is stored as; of a tensor that a file shares
among several layers (GPT-2's c_attn, stacks of experts) this layer's own rows.)")
      .def("quantized", &quantized, "module"_a, "The codes of a layer and what they mean.")
      .def_prop_ro("tensor_names", [](const PyCheckpoint& self) { return self.checkpoint->tensor_names(); })
      .def(
          "tensor", &stored_tensor, "name"_a, nb::sig("def tensor(self, name: str) -> numpy.typing.NDArray"),
          R"(A stored tensor where it lies in the mapped file: read-only, not copied. bfloat16 shows as uint16, 8-bit floats as uint8
(dtype() says which).)")
      .def(
          "dtype",
          [](const PyCheckpoint& self, const std::string& name) {
            return std::string(dtype_name(self.checkpoint->tensor(name).dtype));
          },
          "name"_a, "As safetensors calls it: 'F16', 'BF16', …")
      .def_prop_ro("tensor_bytes", [](const PyCheckpoint& self) { return self.checkpoint->tensor_bytes(); })
      .def(
          "size",
          [](const PyCheckpoint& self) {
            const quant::ModelSize size = unlocked([&] {
              return quant::measure_model(*self.checkpoint, self.checkpoint->architecture(), self.quantized);
            });
            nb::dict facts;
            facts["parameters"] = size.parameters;
            facts["bytes"] = size.bytes;
            facts["bits_per_weight"] = size.bits_per_weight;
            facts["model_bits_per_weight"] = size.model_bits_per_weight;
            facts["method"] = size.method;
            return facts;
          },
          nb::sig("def size(self) -> dict[str, typing.Any]"), "Counted from what is stored.")
      .def(
          "fingerprint",
          [](const PyCheckpoint& self) { return unlocked([&] { return self.checkpoint->fingerprint(); }); },
          "Hash of configuration and tensors; reads all files once.");
}

}  // namespace nibble::python

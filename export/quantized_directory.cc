#include "export/quantized_directory.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/files/output_file.h"
#include "core/machine/thread_pool.h"
#include "core/text/json.h"
#include "export/float_tensors.h"
#include "model/checkpoint/safetensors_writer.h"
#include "model/open/companions.h"
#include "quant/store/quantization_config.h"

namespace nibble::exporting {
namespace {

using model::TensorDeclaration;

/// What is to be written of one tensor, in the order of the file.
struct PlannedTensor {
  TensorDeclaration declaration;
  std::function<void(const ByteSink& sink)> write;
};

std::vector<std::uint64_t> stacked(std::size_t slices, std::vector<std::uint64_t> shape) {
  if (slices > 0) shape.insert(shape.begin(), slices);
  return shape;
}

OutputMatrix matrix_of(const DirectoryFormat& format, const model::Architecture& architecture,
                       const ExportGroup& group) {
  const model::Parameter& first = *group.parts.front()->parameter;
  if (is_expert_stack(format.families, architecture, first))
    return {.group = &group, .slices = group.parts.size(), .by_expert = true, .rows = first.out, .cols = first.in};
  if (is_taken_apart(format.families, architecture, first))
    return {.group = &group, .alone = true, .rows = first.out, .cols = first.in};
  return {.group = &group, .slices = first.weight.slices, .rows = first.weight.rows, .cols = first.weight.cols};
}

// Decodes `rows` and gives them to `sink` as floats of `encoder`'s type, in pieces that all threads decode.
void write_float_rows(const std::vector<RowOrigin>& rows, std::size_t cols, FloatEncoder& encoder,
                      const ByteSink& sink) {
  constexpr std::size_t kStreamPiece = 1 << 22;  // values
  const std::size_t step = std::max<std::size_t>(1, kStreamPiece / cols);
  std::vector<float> values;
  for (std::size_t begin = 0; begin < rows.size(); begin += step) {
    const std::size_t end = std::min(rows.size(), begin + step);
    values.assign((end - begin) * cols, 0.0f);
    parallel_for_tiles(end - begin, 64, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        const RowOrigin& origin = rows[begin + i];
        if (origin.part != nullptr) origin.part->values->decode_rows(origin.row, origin.row + 1, &values[i * cols]);
      }
    });
    sink(encoder.encode(values));
  }
}

class DirectoryPlan {
 public:
  DirectoryPlan(const DirectoryFormat& format, const ExportPlan& plan)
      : format_(format), plan_(plan), dtype_(plan.options.dtype.value_or(DType::kF16)) {
    for (const model::Parameter* layer : model::linear_layers(architecture())) linear_.insert(layer);
    for (const ExportGroup& group : plan.groups) add_group(group);
    for (const ExportTensor& tensor : plan.model.tensors())
      if (!tensor.vectors.empty() && !stacked_biases_.contains(tensor.name)) add_vector(tensor);
  }

  std::vector<PlannedTensor>& tensors() { return tensors_; }
  std::uint64_t linear_bytes() const { return linear_bytes_; }
  const std::vector<OutputMatrix>& coded() const { return coded_; }
  const std::vector<OutputMatrix>& floats() const { return floats_; }

 private:
  const model::Architecture& architecture() const { return plan_.model.architecture(); }

  void add(TensorDeclaration declaration, std::function<void(const ByteSink&)> write) {
    tensors_.push_back({std::move(declaration), std::move(write)});
  }

  void add_group(const ExportGroup& group) {
    const OutputMatrix matrix = matrix_of(format_, architecture(), group);
    const std::size_t before = tensors_.size();
    if (group.as_floats) {
      floats_.push_back(matrix);
      add_float_matrix(matrix);
    } else {
      coded_.push_back(matrix);
      for (CodedTensor& tensor : format_.coded(matrix, plan_)) add_coded(matrix, std::move(tensor));
    }
    if (linear_.contains(group.parts.front()->parameter))
      for (std::size_t i = before; i < tensors_.size(); ++i) {
        const TensorDeclaration& d = tensors_[i].declaration;
        linear_bytes_ += checked_element_count(d.shape, d.name) * dtype_size(d.dtype);
      }
    if (matrix.by_expert) add_stacked_bias(matrix);
  }

  void add_coded(const OutputMatrix& matrix, CodedTensor tensor) {
    TensorDeclaration declaration{matrix.group->name + "." + tensor.suffix, tensor.dtype,
                                  stacked(matrix.slices, tensor.shape)};
    add(std::move(declaration), [matrix, write = std::move(tensor.write)](const ByteSink& sink) {
      for (std::size_t slice = 0; slice < std::max<std::size_t>(1, matrix.slices); ++slice)
        write(IntegerGrid(rows_of(matrix, slice)), sink);
      for (const ExportPart* part : matrix.group->parts) part->values->release();
    });
  }

  void add_float_matrix(const OutputMatrix& matrix) {
    const model::Parameter& first = *matrix.group->parts.front()->parameter;
    if (!matrix.by_expert && !format_.out_in) {
      const ExportTensor& tensor = tensor_named(first.weight.tensor);
      add({output_name(format_.families, architecture(), tensor.name), dtype_, tensor.shape},
          [this, &tensor](const ByteSink& sink) {
            FloatEncoder encoder(tensor.name, dtype_);
            for_values(plan_.model, tensor, [&](std::span<const float> values) { sink(encoder.encode(values)); });
          });
      return;
    }
    add({matrix.group->name + ".weight", dtype_, stacked(matrix.slices, {matrix.rows, matrix.cols})},
        [this, matrix](const ByteSink& sink) {
          FloatEncoder encoder(matrix.group->name, dtype_);
          for (std::size_t slice = 0; slice < std::max<std::size_t>(1, matrix.slices); ++slice)
            write_float_rows(rows_of(matrix, slice), matrix.cols, encoder, sink);
          for (const ExportPart* part : matrix.group->parts) part->values->release();
        });
  }

  // The biases of experts, (slices, rows), where they stand beside a stack made of one role.
  void add_stacked_bias(const OutputMatrix& matrix) {
    const auto& parts = matrix.group->parts;
    if (!plan_.model.weights().contains(parts.front()->parameter->bias.tensor)) return;
    for (const ExportPart* part : parts) stacked_biases_.insert(part->parameter->bias.tensor);
    add({matrix.group->name + ".bias", dtype_, {matrix.slices, matrix.rows}}, [this, matrix](const ByteSink& sink) {
      FloatEncoder encoder(matrix.group->name + ".bias", dtype_);
      for (const ExportPart* part : matrix.group->parts)
        sink(encoder.encode(plan_.model.weights().vector(part->parameter->bias)));
    });
  }

  void add_vector(const ExportTensor& tensor) {
    const DType dtype = dtype_in(tensor, dtype_);
    add({output_name(format_.families, architecture(), tensor.name), dtype, tensor.shape},
        [this, &tensor, dtype](const ByteSink& sink) {
          FloatEncoder encoder(tensor.name, dtype);
          sink(encoder.encode(plan_.model.vector_values(tensor)));
        });
  }

  const ExportTensor& tensor_named(const std::string& name) const {
    const auto& all = plan_.model.tensors();
    const auto found = std::find_if(all.begin(), all.end(), [&](const ExportTensor& t) { return t.name == name; });
    NIBBLE_REQUIRE(found != all.end(), InvalidArgument, "'{}' is no tensor of this model", name);
    return *found;
  }

  const DirectoryFormat& format_;
  const ExportPlan& plan_;
  DType dtype_;
  std::set<const model::Parameter*> linear_;
  std::set<std::string> stacked_biases_;
  std::vector<PlannedTensor> tensors_;
  std::vector<OutputMatrix> coded_, floats_;
  std::uint64_t linear_bytes_ = 0;
};

void write_config(const DirectoryFormat& format, const ExportPlan& plan, const DirectoryPlan& directory,
                  const std::filesystem::path& output) {
  const DType dtype = plan.options.dtype.value_or(DType::kF16);
  const model::Checkpoint& checkpoint = *plan.model.checkpoint();
  auto config =
      nlohmann::ordered_json::parse(quant::as_float_config(checkpoint.metadata(), dtype, plan.model.bias_flags()));
  format.configure(config, plan, directory.coded(), directory.floats());
  write_file(output / "config.json", config.dump(2) + "\n");
}

}  // namespace

std::vector<RowOrigin> rows_of(const OutputMatrix& matrix, std::size_t slice) {
  const auto& parts = matrix.group->parts;
  if (!matrix.by_expert && !matrix.alone)
    return row_origins({.name = matrix.group->name, .shape = {}, .parts = parts, .vectors = {}}, slice);
  const auto part = std::find_if(parts.begin(), parts.end(),
                                 [&](const ExportPart* p) { return matrix.alone || p->parameter->expert == slice; });
  NIBBLE_REQUIRE(part != parts.end(), InvalidArgument, "'{}' has no expert {}", matrix.group->name, slice);
  std::vector<RowOrigin> rows;
  for (std::size_t i = 0; i < matrix.rows; ++i) rows.push_back({*part, i});
  return rows;
}

bool has_zero_points(const ExportPlan& plan) {
  return std::any_of(plan.groups.begin(), plan.groups.end(), [](const ExportGroup& group) {
    return !group.as_floats && group.parts.front()->storage.zero_points;
  });
}

bool is_block_linear(const OutputMatrix& matrix) {
  return model::is_quantizable(matrix.group->parts.front()->parameter->role);
}

Fit fit_integers(const Storage& storage, std::span<const unsigned> bits) {
  if (storage.has_block_palette())
    return Fit::refused(
        "it has integers with scales, but no palettes that blocks scale",
        fmt::format("format: int4-block, group_size: {}", std::max<std::size_t>(storage.group_size, 32)));
  if (!storage.blocks())
    return Fit::refused("it has integers with scales, but no palettes", "format: int4-block, group_size: 32");
  if (std::find(bits.begin(), bits.end(), storage.bits) == bits.end()) {
    const auto wider = std::find_if(bits.begin(), bits.end(), [&](unsigned b) { return b > storage.bits; });
    return Fit::refused(fmt::format("it has codes of {} bits, but not of {}", fmt::join(bits, ", "), storage.bits),
                        fmt::format("format: uniform, bits: {}", wider == bits.end() ? bits.back() : *wider));
  }
  if (storage.cols % storage.group() != 0)
    return Fit::refused(fmt::format("rows of {} inputs do not consist of blocks of {}", storage.cols, storage.group()),
                        "format: float16 for this matrix");
  return Fit::exact();
}

std::string unread_bias(const DirectoryFormat& format, const model::Architecture& architecture,
                        const model::Parameter& layer) {
  if (!model::is_quantizable(layer.role)) return {};
  const bool lacked = format.lacks_bias != nullptr && format.lacks_bias(architecture, layer);
  if (!lacked && announces_bias(architecture, layer)) return {};
  return fmt::format(
      "'{}' has a bias, which shifting gave it, but programs expect none there in family {}; quantize with shifting: "
      "false",
      layer.module, architecture.family);
}

Written write_directory(const DirectoryFormat& format, const ExportPlan& plan, const std::filesystem::path& output,
                        const ProgressSink& progress) {
  DirectoryPlan directory(format, plan);
  std::vector<TensorDeclaration> declarations;
  Written written{.bytes = 0, .linear_bits = 8 * directory.linear_bytes()};
  const model::Architecture& architecture = plan.model.architecture();
  if (format.notes != nullptr) written.notes = format.notes(architecture);
  for (std::string& note : family_notes(format.families, architecture)) written.notes.push_back(std::move(note));
  for (const PlannedTensor& tensor : directory.tensors()) {
    const TensorDeclaration& d = tensor.declaration;
    declarations.push_back(d);
    written.bytes += checked_element_count(d.shape, d.name) * dtype_size(d.dtype);
  }
  model::SafetensorsWriter writer(output / "model.safetensors", declarations,
                                  {{"format", std::string(format.metadata)}});
  double done = 0.0;
  for (const PlannedTensor& tensor : directory.tensors()) {
    tensor.write([&](std::span<const std::byte> bytes) { writer.write(bytes); });
    if (progress) progress({"exporting", ++done, static_cast<double>(directory.tensors().size()), "tensors"});
  }
  writer.commit();
  write_config(format, plan, directory, output);
  model::add_companions(plan.model.checkpoint()->directory(), output);
  return written;
}

}  // namespace nibble::exporting

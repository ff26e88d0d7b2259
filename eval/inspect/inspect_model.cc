#include "eval/inspect/inspect_model.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "model/architecture/tensor_names.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/narrow_tensors.h"
#include "model/open/open_model.h"
#include "quant/recipe/recipe.h"
#include "quant/store/model_size.h"
#include "quant/store/model_weights.h"

namespace nibble::eval {
namespace {

constexpr std::size_t kPieceValues = 1 << 18;

// A tensor in pieces of about kPieceValues values, and how to read one.
struct PiecedTensor {
  std::size_t pieces = 0;
  std::function<void(std::size_t piece, std::vector<float>& values)> read;
};

PiecedTensor pieces_of(const std::shared_ptr<const model::Checkpoint>& checkpoint, const model::TensorView& tensor) {
  if (!is_float(tensor.dtype)) return {};
  const std::size_t size = dtype_size(tensor.dtype), count = tensor.data.size() / size;
  return {(count + kPieceValues - 1) / kPieceValues, [=](std::size_t piece, std::vector<float>& values) {
            const std::size_t begin = piece * kPieceValues;
            values.resize(std::min(kPieceValues, count - begin));
            convert_to_f32(tensor.dtype, tensor.data.data() + begin * size, values.size(), values.data());
            checkpoint->check_intact(tensor);
          }};
}

// Matrices of one shape, one after the other.
PiecedTensor pieces_of(const std::vector<std::shared_ptr<const WeightSource>>& matrices) {
  if (matrices.empty()) return {};
  const std::size_t rows = matrices.front()->rows(), cols = matrices.front()->cols();
  const std::size_t step = std::max<std::size_t>(1, kPieceValues / std::max<std::size_t>(1, cols));
  const std::size_t of_matrix = (rows + step - 1) / step;
  return {of_matrix * matrices.size(), [=](std::size_t piece, std::vector<float>& values) {
            const std::size_t begin = piece % of_matrix * step, end = std::min(rows, begin + step);
            values.resize((end - begin) * cols);
            matrices[piece / of_matrix]->decode_rows(begin, end, values.data());
          }};
}

std::vector<std::shared_ptr<const WeightSource>> matrices_of(const std::shared_ptr<const model::Checkpoint>& checkpoint,
                                                             const model::NarrowTensors& tensors,
                                                             const model::NarrowTensor& narrow, model::Stored place) {
  std::vector<std::shared_ptr<const WeightSource>> matrices;
  for (place.slice = 0; place.slice < std::max<std::size_t>(1, place.slices); ++place.slice)
    matrices.push_back(tensors.source(checkpoint, narrow, place));
  return matrices;
}

std::string recipe_text(const std::string& json, const std::string& what) {
  try {
    return quant::Recipe::parse(json, what).canonical_text();
  } catch (const InvalidArgument& error) {
    throw FormatError(error.what());  // here the recipe comes from a file
  }
}

// Names of the weights, as they are stored in files of floats or quantized, that bits_per_weight is about.
std::set<std::string> block_linears(const model::Architecture& architecture) {
  std::set<std::string> names;
  for (const model::Parameter* layer : model::linear_layers(architecture)) {
    names.insert(layer->weight.tensor);
    names.insert(layer->weight_module + ".weight");
  }
  return names;
}

// Reads all pieces of all tensors on all threads, and merges them in order.
void fill_statistics(const std::vector<PiecedTensor>& sources, std::vector<TensorDescription>& tensors,
                     const ProgressSink& progress) {
  struct Piece {
    std::size_t tensor = 0, index = 0;
    ValueSums sums;
  };
  std::vector<Piece> pieces;
  double total = 0.0;
  for (std::size_t t = 0; t < sources.size(); ++t)
    for (std::size_t i = 0; i < sources[t].pieces; ++i) pieces.push_back({t, i, {}});
  for (const TensorDescription& tensor : tensors) total += static_cast<double>(tensor.weights);
  std::atomic<std::uint64_t> done{0};
  parallel_for(pieces.size(), [&](std::size_t p) {
    thread_local std::vector<float> values;
    sources[pieces[p].tensor].read(pieces[p].index, values);
    pieces[p].sums.add(values);
    done += values.size();
    if (progress && thread_index() == 0) progress({"inspecting", static_cast<double>(done.load()), total, "weights"});
  });
  std::vector<ValueSums> sums(tensors.size());
  for (const Piece& piece : pieces) sums[piece.tensor].merge(piece.sums);
  for (std::size_t t = 0; t < tensors.size(); ++t) tensors[t].values = sums[t].statistics();
}

}  // namespace

ModelDescription describe_model(const std::filesystem::path& directory, const ProgressSink& progress) {
  const auto checkpoint = model::open_checkpoint(directory);
  ModelDescription model;
  model.architecture = checkpoint->architecture();
  model.summary = model::describe(model.architecture);
  if (const auto config = quant::parse_quantization_config(checkpoint->metadata(), quant::config_place(*checkpoint)))
    model.recipe = recipe_text(config->recipe, quant::config_place(*checkpoint));
  const quant::QuantizedWeights quantized = quant::open_quantized_weights(checkpoint);
  quant::ModelSize size = quant::measure_model(*checkpoint, model.architecture, quantized);
  model.parameters = size.parameters;
  model.bytes = size.bytes;
  model.bits_per_weight = size.bits_per_weight;
  model.model_bits_per_weight = size.model_bits_per_weight;
  model.method = std::move(size.method);

  const std::set<std::string> linears = block_linears(model.architecture);
  const model::TensorNames names(model.architecture);
  const model::NarrowTensors narrow_tensors(*checkpoint);
  std::vector<PiecedTensor> sources;
  const auto add = [&](TensorDescription tensor, PiecedTensor source) {
    if (tensor.weights > 0)  // else 0, like its bytes
      tensor.bits_per_weight = static_cast<double>(tensor.bytes) * 8.0 / static_cast<double>(tensor.weights);
    tensor.block_linear = linears.contains(names.canonical(tensor.name));
    model.tensors.push_back(std::move(tensor));
    sources.push_back(std::move(source));
  };
  for (const std::string& name : checkpoint->tensor_names()) {
    if (model.architecture.is_ignored(name)) continue;
    const std::string module = name.substr(0, name.rfind('.'));
    if (const auto part = narrow_tensors.part_of(name)) {
      if (part->kind != model::NarrowPart::Kind::kCodes) continue;  // the codes stand for all parts
      const auto narrow = narrow_tensors.find(part->tensor);
      const model::Stored place = narrow_tensors.place_of(*narrow);
      add({.name = part->tensor,
           .storage = narrow->storage(),
           .shape = place.shape(),
           .weights = narrow->weights(),
           .bytes = narrow->bytes(),
           .bits_per_weight = 0.0,
           .block_linear = false,
           .values = {}},
          pieces_of(matrices_of(checkpoint, narrow_tensors, *narrow, place)));
    } else if (!quant::is_quantized_part(quantized, name)) {
      const auto view = checkpoint->tensor(name);
      add({.name = name,
           .storage = std::string(dtype_name(view.dtype)),
           .shape = view.shape,
           .weights = view.element_count(),
           .bytes = view.data.size(),
           .bits_per_weight = 0.0,
           .block_linear = false,
           .values = {}},
          pieces_of(checkpoint, view));
    } else if (name.ends_with(".codes")) {  // stands for all parts
      const auto& weight = quantized.at(module);
      add({.name = module + ".weight",
           .storage = quant::storage_text(weight->stored()),
           .shape = {weight->rows(), weight->cols()},
           .weights = weight->tensor().weights(),
           .bytes = weight->tensor().stored_bits() / 8,
           .bits_per_weight = 0.0,
           .block_linear = false,
           .values = {}},
          pieces_of({weight}));
    }
  }
  fill_statistics(sources, model.tensors, progress);
  return model;
}

}  // namespace nibble::eval

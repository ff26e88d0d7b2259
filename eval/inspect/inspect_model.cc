#include "eval/inspect/inspect_model.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "core/error.h"
#include "core/thread_pool.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/tensor_checks.h"
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

PiecedTensor pieces_of(const std::shared_ptr<const quant::MappedQuantizedWeight>& weight) {
  const std::size_t rows = weight->rows(), cols = weight->cols();
  const std::size_t step = std::max<std::size_t>(1, kPieceValues / cols);
  return {(rows + step - 1) / step, [=](std::size_t piece, std::vector<float>& values) {
            const std::size_t begin = piece * step, end = std::min(rows, begin + step);
            values.resize((end - begin) * cols);
            weight->decode_rows(begin, end, values.data());
          }};
}

std::string architecture_text(const model::Config& config) {
  const bool gpt2 = config.family == model::Family::kGpt2;
  std::string text = fmt::format("{}, {} layers, width {}, {} heads", gpt2 ? "gpt2" : "llama", config.layers,
                                 config.hidden, config.heads);
  if (config.kv_heads != config.heads) text += fmt::format(" ({} for keys and values)", config.kv_heads);
  return text + fmt::format(" of {}, MLP {}, vocabulary {}, {} positions, {} head", config.head_dim,
                            config.intermediate, config.vocabulary, config.max_positions,
                            config.tied_head ? "tied" : "untied");
}

std::string recipe_text(const std::string& json, const std::string& what) {
  try {
    return quant::Recipe::parse(json, what).canonical_text();
  } catch (const InvalidArgument& error) {
    throw FormatError(error.what());  // here the recipe comes from a file
  }
}

// Names of the weights, whole or in parts, that bits_per_weight is about.
bool is_block_linear(const std::string& module, const std::vector<model::LinearLayer>& layers) {
  return std::any_of(layers.begin(), layers.end(), [&](const model::LinearLayer& layer) {
    return module == layer.module || module == "transformer." + layer.module ||
           (module.size() == layer.module.size() + 2 && module.starts_with(layer.module + "."));
  });
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
  const auto checkpoint = model::Checkpoint::open(directory);
  ModelDescription model;
  model.config = model::parse_config(checkpoint->config_text(), quant::config_place(*checkpoint));
  model.architecture = architecture_text(model.config);
  if (const auto config = quant::parse_quantization_config(checkpoint->config_text(), quant::config_place(*checkpoint)))
    model.recipe = recipe_text(config->recipe, quant::config_place(*checkpoint));
  const quant::QuantizedWeights quantized = quant::open_quantized_weights(checkpoint);
  quant::ModelSize size = quant::measure_model(*checkpoint, model.config, quantized);
  model.parameters = size.parameters;
  model.bytes = size.bytes;
  model.bits_per_weight = size.bits_per_weight;
  model.model_bits_per_weight = size.model_bits_per_weight;
  model.method = std::move(size.method);

  const auto layers = model::linear_layers(model.config);
  std::vector<PiecedTensor> sources;
  const auto add = [&](const std::string& module, TensorDescription tensor, PiecedTensor source) {
    tensor.bits_per_weight = static_cast<double>(tensor.bytes) * 8.0 / static_cast<double>(tensor.weights);
    tensor.block_linear = tensor.name == module + ".weight" && is_block_linear(module, layers);
    model.tensors.push_back(std::move(tensor));
    sources.push_back(std::move(source));
  };
  for (const std::string& name : checkpoint->tensor_names()) {
    if (model::is_ignored_buffer(name)) continue;
    const std::string module = name.substr(0, name.rfind('.'));
    if (!quant::is_quantized_part(quantized, name)) {
      const auto view = checkpoint->tensor(name);
      add(module,
          {.name = name,
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
      add(module,
          {.name = module + ".weight",
           .storage = quant::storage_text(weight->stored()),
           .shape = {weight->rows(), weight->cols()},
           .weights = weight->tensor().weights(),
           .bytes = weight->tensor().stored_bits() / 8,
           .bits_per_weight = 0.0,
           .block_linear = false,
           .values = {}},
          pieces_of(weight));
    }
  }
  fill_statistics(sources, model.tensors, progress);
  return model;
}

}  // namespace nibble::eval

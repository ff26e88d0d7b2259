#include "quant/store/load_model.h"

#include <set>

#include "model/open/open_model.h"
#include "model/transformer/build.h"
#include "quant/store/model_size.h"

namespace nibble::quant {
namespace {

// Of the tokens, how many a layer is given: all, or those that choose an expert when all are chosen alike.
double active_share(const model::Architecture& architecture, const model::Parameter& layer) {
  if (!layer.expert) return 1.0;
  const auto& experts = architecture.blocks[layer.block].experts;
  return static_cast<double>(experts->active) / static_cast<double>(experts->experts.size());
}

}  // namespace

LoadedModel load_model(const std::filesystem::path& directory, const LoadOptions& options) {
  return load_model(model::open_checkpoint(directory), options);
}

LoadedModel load_model(std::shared_ptr<const model::Checkpoint> checkpoint, const LoadOptions& options) {
  LoadedModel loaded;
  loaded.checkpoint = std::move(checkpoint);
  loaded.architecture = loaded.checkpoint->architecture();
  QuantizedWeights quantized = open_quantized_weights(loaded.checkpoint);
  ModelSize size = measure_model(*loaded.checkpoint, loaded.architecture, quantized);
  loaded.bits_per_weight = size.bits_per_weight;
  loaded.model_bits_per_weight = size.model_bits_per_weight;
  loaded.method = std::move(size.method);
  const auto weights = make_weight_provider(loaded.checkpoint, std::move(quantized), options);
  std::set<std::string> kernels;
  bool all_known = true;
  double bytes_per_token = 0.0;
  std::uint64_t head_bytes = 0;
  loaded.transformer =
      model::build_transformer<float>(loaded.architecture, *weights, [&](const model::Parameter& layer) {
        auto linear = weights->linear(layer);
        kernels.insert(linear->kernel_name());
        bytes_per_token += static_cast<double>(linear->weight_bytes()) * active_share(loaded.architecture, layer);
        if (layer.role == model::Role::kHead) head_bytes = linear->weight_bytes();
        all_known = all_known && linear->weight_bytes() != 0;
        return linear;
      });
  if (all_known) {
    loaded.bytes_per_token = static_cast<std::uint64_t>(bytes_per_token);
    loaded.head_bytes_per_token = head_bytes;
  }
  loaded.kernels.assign(kernels.begin(), kernels.end());
  return loaded;
}

}  // namespace nibble::quant

#include "quant/store/load_model.h"

#include <set>

#include "model/transformer/build.h"
#include "quant/store/model_size.h"

namespace nibble::quant {

LoadedModel load_model(const std::filesystem::path& directory, const LoadOptions& options) {
  LoadedModel loaded;
  loaded.checkpoint = model::Checkpoint::open(directory);
  loaded.config = model::parse_config(loaded.checkpoint->config_text(), config_place(*loaded.checkpoint));
  QuantizedWeights quantized = open_quantized_weights(loaded.checkpoint);
  ModelSize size = measure_model(*loaded.checkpoint, loaded.config, quantized);
  loaded.bits_per_weight = size.bits_per_weight;
  loaded.model_bits_per_weight = size.model_bits_per_weight;
  loaded.method = std::move(size.method);
  const auto weights = make_weight_provider(loaded.checkpoint, std::move(quantized), options);
  std::set<std::string> kernels;
  bool all_known = true;
  loaded.transformer = model::build_transformer<float>(loaded.config, *weights, [&](const model::LinearLayer& layer) {
    auto linear = weights->linear(layer.module, layer.out, layer.in, layer.conv1d);
    kernels.insert(linear->kernel_name());
    loaded.bytes_per_token += linear->weight_bytes();
    all_known = all_known && linear->weight_bytes() != 0;
    return linear;
  });
  if (!all_known) loaded.bytes_per_token = 0;
  loaded.kernels.assign(kernels.begin(), kernels.end());
  return loaded;
}

}  // namespace nibble::quant

#include "model/transformer/build.h"

#include <complex>

#include "core/error.h"
#include "model/transformer/decoder.h"

namespace nibble::model {
namespace {

template <class T>
std::vector<T> converted(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

/// Reads the parts of one family by their names in the checkpoint.
template <class T>
class Builder {
 public:
  Builder(const Config& config, const WeightProvider& weights, const LinearFactory<T>& make_linear)
      : config_(config), weights_(weights), make_linear_(make_linear), gpt2_(config.family == Family::kGpt2) {}

  DecoderParts<T> build() const {
    const std::vector<LinearLayer> layers = linear_layers(config_);
    const std::size_t per_block = layers.size() / config_.layers;
    std::vector<Block<T>> blocks;
    for (std::size_t i = 0; i < config_.layers; ++i)
      blocks.push_back(block(i, std::span(layers).subspan(i * per_block, per_block)));
    return {config_, embedding(), std::move(blocks), head()};
  }

 private:
  std::string token_module() const { return gpt2_ ? "wte" : "model.embed_tokens"; }

  Embedding<T> embedding() const {
    auto tokens = weights_.matrix(token_module(), config_.vocabulary, config_.hidden, false);
    auto positions = gpt2_ ? weights_.matrix("wpe", config_.max_positions, config_.hidden, false) : nullptr;
    return {std::move(tokens), std::move(positions)};
  }

  Head<T> head() const {
    const std::string module = config_.tied_head ? token_module() : "lm_head";
    const LinearLayer layer{module, config_.vocabulary, config_.hidden, false, config_.layers};
    return {norm(gpt2_ ? "ln_f" : "model.norm"), {"lm_head", make_linear_(layer)}};
  }

  Norm<T> norm(const std::string& module) const {
    using Kind = typename Norm<T>::Kind;
    auto gain = converted<T>(weights_.vector(module + ".weight", config_.hidden));
    auto bias = gpt2_ ? converted<T>(weights_.vector(module + ".bias", config_.hidden)) : std::vector<T>{};
    return {gpt2_ ? Kind::kLayer : Kind::kRms, std::move(gain), std::move(bias), config_.norm_epsilon};
  }

  NamedLinear<T> linear(const LinearLayer& layer, bool bias_expected) const {
    NIBBLE_REQUIRE(!bias_expected || weights_.contains(layer.module + ".bias"), FormatError,
                   "missing tensor '{}.bias', which config.json asks for", layer.module);
    return {layer.module, make_linear_(layer)};
  }

  // `layers` in the order of linear_layers(): those into the attention, the one out of it, then the same of the MLP.
  Block<T> block(std::size_t index, std::span<const LinearLayer> layers) const {
    const std::size_t into_attention = gpt2_ ? 1 : 3;
    const auto linears = [&](std::size_t first, std::size_t count, bool bias_expected) {
      std::vector<NamedLinear<T>> list;
      for (const LinearLayer& layer : layers.subspan(first, count)) list.push_back(linear(layer, bias_expected));
      return list;
    };
    const std::string prefix = gpt2_ ? fmt::format("h.{}.", index) : fmt::format("model.layers.{}.", index);
    return {{config_.heads, config_.kv_heads, config_.head_dim},
            norm(prefix + (gpt2_ ? "ln_1" : "input_layernorm")),
            linears(0, into_attention, config_.attention_bias),
            linear(layers[into_attention], config_.attention_bias),
            norm(prefix + (gpt2_ ? "ln_2" : "post_attention_layernorm")),
            linears(into_attention + 1, layers.size() - into_attention - 2, config_.mlp_bias),
            linear(layers.back(), config_.mlp_bias)};
  }

  const Config& config_;
  const WeightProvider& weights_;
  const LinearFactory<T>& make_linear_;
  bool gpt2_;
};

}  // namespace

template <class T>
std::unique_ptr<Transformer<T>> build_transformer(const Config& config, const WeightProvider& weights,
                                                  const LinearFactory<T>& make_linear) {
  return std::make_unique<Decoder<T>>(Builder<T>(config, weights, make_linear).build());
}

template <class T>
std::unique_ptr<DenseLinear<T>> make_dense_linear(const LinearLayer& layer, const WeightProvider& weights) {
  const auto source = weights.matrix(layer.module, layer.out, layer.in, layer.conv1d);
  Matrix<T> weight(layer.out, layer.in);
  std::vector<float> row(layer.in);
  for (std::size_t r = 0; r < layer.out; ++r) {
    source->decode_rows(r, r + 1, row.data());
    for (std::size_t c = 0; c < layer.in; ++c) weight(r, c) = static_cast<T>(row[c]);
  }
  std::vector<T> bias;
  if (weights.contains(layer.module + ".bias")) bias = converted<T>(weights.vector(layer.module + ".bias", layer.out));
  return std::make_unique<DenseLinear<T>>(std::move(weight), std::move(bias));
}

template <class T>
std::unique_ptr<Transformer<T>> make_dense_transformer(const Config& config, const WeightProvider& weights) {
  return build_transformer<T>(config, weights,
                              [&](const LinearLayer& layer) { return make_dense_linear<T>(layer, weights); });
}

std::unique_ptr<Model> make_model(const Config& config, const WeightProvider& weights) {
  return build_transformer<float>(config, weights, [&](const LinearLayer& layer) {
    return weights.linear(layer.module, layer.out, layer.in, layer.conv1d);
  });
}

#define NIBBLE_INSTANTIATE(T)                                                                               \
  template std::unique_ptr<Transformer<T>> build_transformer<T>(const Config&, const WeightProvider&,       \
                                                                const LinearFactory<T>&);                   \
  template std::unique_ptr<DenseLinear<T>> make_dense_linear<T>(const LinearLayer&, const WeightProvider&); \
  template std::unique_ptr<Transformer<T>> make_dense_transformer<T>(const Config&, const WeightProvider&);
NIBBLE_INSTANTIATE(float)
NIBBLE_INSTANTIATE(double)
NIBBLE_INSTANTIATE(std::complex<double>)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model

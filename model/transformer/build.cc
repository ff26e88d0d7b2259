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

/// Makes the layers that the architecture describes.
template <class T>
class Builder {
 public:
  Builder(const Architecture& architecture, const WeightProvider& weights, const LinearFactory<T>& make_linear)
      : architecture_(architecture), weights_(weights), make_linear_(make_linear) {}

  DecoderParts<T> build() const {
    std::vector<Block<T>> blocks;
    for (const BlockSpec& spec : architecture_.blocks) blocks.push_back(block(spec));
    return {architecture_, embedding(), std::move(blocks), head()};
  }

 private:
  Embedding<T> embedding() const {
    const auto& positions = architecture_.positions;
    return {weights_.matrix(architecture_.embedding), positions ? weights_.matrix(*positions) : nullptr};
  }

  Head<T> head() const { return {norm(*architecture_.final_norm), linear(architecture_.head.linear)}; }

  Norm<T> norm(const NormSpec& spec) const {
    auto gain = converted<T>(weights_.vector(*spec.gain));
    auto bias = spec.bias ? converted<T>(weights_.vector(*spec.bias)) : std::vector<T>{};
    return {spec.kind, std::move(gain), std::move(bias), spec.epsilon};
  }

  NamedLinear<T> linear(const Parameter& parameter) const { return {parameter.module, make_linear_(parameter)}; }

  Block<T> block(const BlockSpec& spec) const {
    const AttentionSpec& attention = spec.attention;
    std::vector<NamedLinear<T>> qkv, mlp_in;
    for (const Parameter* p : {&attention.q, &attention.k, &attention.v}) qkv.push_back(linear(*p));
    if (spec.mlp->gate) mlp_in.push_back(linear(*spec.mlp->gate));
    mlp_in.push_back(linear(spec.mlp->up));
    return {{attention.heads, attention.kv_heads, attention.head_dim},
            norm(*spec.attention_norm),
            std::move(qkv),
            linear(attention.o),
            norm(*spec.mlp_norm),
            std::move(mlp_in),
            linear(spec.mlp->down)};
  }

  const Architecture& architecture_;
  const WeightProvider& weights_;
  const LinearFactory<T>& make_linear_;
};

}  // namespace

template <class T>
std::unique_ptr<Transformer<T>> build_transformer(const Architecture& architecture, const WeightProvider& weights,
                                                  const LinearFactory<T>& make_linear) {
  return std::make_unique<Decoder<T>>(Builder<T>(architecture, weights, make_linear).build());
}

template <class T>
std::unique_ptr<DenseLinear<T>> make_dense_linear(const Parameter& layer, const WeightProvider& weights) {
  const auto source = weights.matrix(layer);
  Matrix<T> weight(layer.out, layer.in);
  std::vector<float> row(layer.in);
  for (std::size_t r = 0; r < layer.out; ++r) {
    source->decode_rows(r, r + 1, row.data());
    for (std::size_t c = 0; c < layer.in; ++c) weight(r, c) = static_cast<T>(row[c]);
  }
  return std::make_unique<DenseLinear<T>>(std::move(weight), converted<T>(bias_of(layer, weights)));
}

template <class T>
std::unique_ptr<Transformer<T>> make_dense_transformer(const Architecture& architecture,
                                                       const WeightProvider& weights) {
  return build_transformer<T>(architecture, weights,
                              [&](const Parameter& layer) { return make_dense_linear<T>(layer, weights); });
}

std::unique_ptr<Model> make_model(const Architecture& architecture, const WeightProvider& weights) {
  return build_transformer<float>(architecture, weights, [&](const Parameter& layer) { return weights.linear(layer); });
}

#define NIBBLE_INSTANTIATE(T)                                                                               \
  template std::unique_ptr<Transformer<T>> build_transformer<T>(const Architecture&, const WeightProvider&, \
                                                                const LinearFactory<T>&);                   \
  template std::unique_ptr<DenseLinear<T>> make_dense_linear<T>(const Parameter&, const WeightProvider&);   \
  template std::unique_ptr<Transformer<T>> make_dense_transformer<T>(const Architecture&, const WeightProvider&);
NIBBLE_INSTANTIATE(float)
NIBBLE_INSTANTIATE(double)
NIBBLE_INSTANTIATE(std::complex<double>)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model

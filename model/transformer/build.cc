#include "model/transformer/build.h"

#include "core/error.h"
#include "model/transformer/decoder.h"
#include "model/transformer/layers/make_feed_forward.h"
#include "model/transformer/scalar.h"

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
    return {weights_.matrix(architecture_.embedding), positions ? weights_.matrix(*positions) : nullptr,
            architecture_.position_offset, architecture_.embedding_scale, norm(architecture_.embedding_norm)};
  }

  Head<T> head() const {
    const HeadSpec& spec = architecture_.head;
    return {norm(architecture_.final_norm), linear(spec.linear), spec.scale, spec.softcap};
  }

  std::optional<Norm<T>> norm(const std::optional<NormSpec>& spec) const {
    if (!spec) return std::nullopt;
    std::vector<T> gain, bias;
    for (const float value : gain_of(*spec, weights_))
      gain.push_back(static_cast<T>(static_cast<double>(value) + spec->gain_offset));
    if (spec->bias) bias = converted<T>(weights_.vector(*spec->bias));
    return Norm<T>(spec->kind, spec->width, std::move(gain), std::move(bias), spec->epsilon);
  }

  NamedLinear<T> linear(const Parameter& parameter) const { return {parameter.module, make_linear_(parameter)}; }

  AttentionShape attention_shape(const AttentionSpec& spec) const {
    AttentionShape shape{spec.heads,  spec.kv_heads, spec.head_dim, spec.scale,
                         spec.window, spec.softcap,  spec.alibi,    {}};
    if (spec.sinks)
      for (const float value : weights_.vector(*spec.sinks)) shape.sinks.push_back(static_cast<double>(value));
    const auto per_head = [&](const std::vector<double>& values) {
      return values.empty() || values.size() == spec.heads;
    };
    NIBBLE_REQUIRE(
        spec.kv_heads > 0 && spec.heads % spec.kv_heads == 0 && per_head(shape.alibi) && per_head(shape.sinks),
        InvalidArgument, "attention: {} heads do not fit {} for keys and values, {} slopes and {} sinks", spec.heads,
        spec.kv_heads, shape.alibi.size(), shape.sinks.size());
    NIBBLE_REQUIRE(!spec.rotary || (spec.rotary->dims % 2 == 0 && spec.rotary->dims <= spec.head_dim), InvalidArgument,
                   "attention: rotary over {} of {} elements of a head", spec.rotary->dims, spec.head_dim);
    return shape;
  }

  Block<T> block(const BlockSpec& spec) const {
    const AttentionSpec& attention = spec.attention;
    NIBBLE_REQUIRE(!attention.norms_behind_rotary || attention.clip == 0.0, InvalidArgument,
                   "attention: q and k clipped before norms behind the rotary embedding are not computed");
    Block<T> block;
    block.residual = spec.residual;
    block.residual_multiplier = spec.residual_multiplier;
    block.attention = attention_shape(attention);
    block.clip = attention.clip;
    block.growth = attention.growth;
    block.attention_norm = norm(spec.attention_norm);
    block.norms_behind_rotary = attention.norms_behind_rotary;
    block.q_norm = norm(attention.q_norm);
    block.k_norm = norm(attention.k_norm);
    block.attention_post_norm = norm(spec.attention_post_norm);
    block.mlp_norm = norm(spec.mlp_norm);
    block.mlp_post_norm = norm(spec.mlp_post_norm);
    for (const Parameter* p : {&attention.q, &attention.k, &attention.v}) block.qkv.push_back(linear(*p));
    block.attention_out = linear(attention.o);
    block.mlp = make_feed_forward<T>(spec, make_linear_, weights_);
    return block;
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

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define NIBBLE_INSTANTIATE(T)                                                                               \
  template std::unique_ptr<Transformer<T>> build_transformer<T>(const Architecture&, const WeightProvider&, \
                                                                const LinearFactory<T>&);                   \
  template std::unique_ptr<DenseLinear<T>> make_dense_linear<T>(const Parameter&, const WeightProvider&);   \
  template std::unique_ptr<Transformer<T>> make_dense_transformer<T>(const Architecture&, const WeightProvider&);
// NOLINTEND(bugprone-macro-parentheses)
NIBBLE_SCALARS(NIBBLE_INSTANTIATE)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model

#include "export/coreml/network.h"

#include <algorithm>

#include "core/error.h"
#include "export/coreml/attention.h"
#include "export/coreml/ops.h"

namespace nibble::coreml {
namespace {

using model::Architecture;
using model::AttentionSpec;
using model::BlockSpec;

// Of a part of the head; parts are whole groups of 64. The logits that they are joined to are as long as the
// vocabulary.
constexpr std::size_t kAneOutputs = kAneAxis - 64;

class NetworkBuilder {
 public:
  NetworkBuilder(const Architecture& architecture, const NetworkWeights& weights, const NetworkForm& form,
                 ConstantPool& pool)
      : architecture_(architecture), graph_(pool), layers_(graph_, weights, form.layout, form.positions) {
    form_ = form.layout == Layout::kGpu ? make_gpu_attention(layers_, architecture, form.positions)
                                        : make_ane_attention(layers_, architecture, form.tokens, form.past);
    tokens_ = form.layout == Layout::kGpu ? kUnknown : form.tokens;
  }

  Network build() {
    Var x = embedded();
    for (std::size_t b = 0; b < architecture_.blocks.size(); ++b) x = block(architecture_.blocks[b], b, x);
    if (architecture_.final_norm) x = layers_.norm(x, *architecture_.final_norm, "final_norm");
    const Var logits = head(x);
    Network network{{}, form_->interface()};
    const bool known = tokens_ != kUnknown;
    network.interface.outputs = {
        {logits.name, DataType::kFloat16, known ? logits.shape() : std::vector<std::uint64_t>{}, {}}};
    network.function = graph_.finish({logits.name});
    return network;
  }

 private:
  Var embedded() {
    Graph& g = graph_;
    Var x = gather(g, layers_.weight(architecture_.embedding), form_->ids(), "embedded");
    x = layers_.scaled(x, architecture_.embedding_scale, "embedded_scaled");
    if (architecture_.positions) {
      Var rows = form_->positions();
      if (architecture_.position_offset > 0)
        rows = add(g, rows, g.integer(static_cast<std::int32_t>(architecture_.position_offset)), "position_rows");
      const Var learned = gather(g, layers_.weight(*architecture_.positions), rows, "learned_positions");
      x = add(g, x, expand_dims(g, learned, {0}, "learned_positions_row"), "embedded_at_positions");
    }
    return architecture_.embedding_norm ? layers_.norm(x, *architecture_.embedding_norm, "embedding_norm") : x;
  }

  // (1, tokens, heads · width) to (1, heads, tokens, width), through a norm of each head and the rotary embedding.
  Var by_head(const Var& x, std::size_t heads, const AttentionSpec& spec, const std::optional<model::NormSpec>& norm,
              const std::string& name) {
    Var y = x;
    const bool whole = norm && norm->width != spec.head_dim;
    if (whole) y = layers_.norm(y, *norm, name + "_norm");
    y = reshape(graph_, y, {1, -1, static_cast<std::int32_t>(heads), static_cast<std::int32_t>(spec.head_dim)},
                name + "_by_head");
    if (norm && !whole) y = layers_.norm(y, *norm, name + "_norm");
    return transpose(graph_, y, {0, 2, 1, 3}, name + "_heads");
  }

  Var attention(const AttentionSpec& spec, std::size_t index, const Var& x, const std::string& name) {
    const auto projected = [&](const model::Parameter& parameter, const char* what) {
      const Var y = layers_.linear(x, parameter, name + what);
      return spec.clip > 0.0 ? layers_.clipped(y, spec.clip, name + what + "_clipped") : y;
    };
    const bool before = !spec.norms_behind_rotary;
    const std::optional<model::NormSpec> none;
    Var q = by_head(projected(spec.q, "q"), spec.heads, spec, before ? spec.q_norm : none, name + "q");
    Var k = by_head(projected(spec.k, "k"), spec.kv_heads, spec, before ? spec.k_norm : none, name + "k");
    const Var v = by_head(projected(spec.v, "v"), spec.kv_heads, spec, {}, name + "v");
    if (spec.rotary) {
      q = layers_.rotary(q, *spec.rotary, form_->positions(), name + "q_turned");
      k = layers_.rotary(k, *spec.rotary, form_->positions(), name + "k_turned");
    }
    if (!before) {
      if (spec.q_norm) q = layers_.norm(q, *spec.q_norm, name + "q_norm");
      if (spec.k_norm) k = layers_.norm(k, *spec.k_norm, name + "k_norm");
    }
    const Var attended = form_->attend(spec, index, q, k, v);
    const Var rows = reshape(graph_, transpose(graph_, attended, {0, 2, 1, 3}, name + "attended_rows"),
                             {1, -1, static_cast<std::int32_t>(spec.q_width())}, name + "attended_joined");
    return layers_.linear(rows, spec.o, name + "o");
  }

  Var block(const BlockSpec& spec, std::size_t index, const Var& x) {
    Graph& g = graph_;
    const std::string name = fmt::format("block{}_", index);
    const auto normed = [&](const Var& value, const std::optional<model::NormSpec>& norm, const char* what) {
      return norm ? layers_.norm(value, *norm, name + what) : value;
    };
    const auto added = [&](const Var& to, const Var& value, const char* what) {
      return add(g, to, layers_.scaled(value, spec.residual_multiplier, name + what + "_scaled"), name + what);
    };
    const Var input = normed(x, spec.attention_norm, "attention_norm");
    const Var attended =
        normed(attention(spec.attention, index, input, name), spec.attention_post_norm, "attention_post_norm");
    const bool parallel = spec.residual == BlockSpec::Residual::kParallel;
    const Var middle = parallel ? x : added(x, attended, "after_attention");
    const Var mlp_input = spec.mlp_norm ? normed(middle, spec.mlp_norm, "mlp_norm") : parallel ? input : middle;
    const Var mlp = normed(layers_.mlp(mlp_input, *spec.mlp, name + "mlp"), spec.mlp_post_norm, "mlp_post_norm");
    const Var behind = parallel ? added(x, attended, "after_attention") : middle;
    return added(behind, mlp, "after_mlp");
  }

  Var head(const Var& x) {
    const model::HeadSpec& head = architecture_.head;
    const bool finished = head.scale == 1.0 && head.softcap <= 0.0;
    Var logits = head_products(x, finished ? "logits" : "products");
    if (finished) return logits;
    logits = layers_.scaled(logits, head.scale, head.softcap > 0.0 ? "products_scaled" : "logits");
    return head.softcap > 0.0 ? layers_.softcap(logits, head.softcap, "logits") : logits;
  }

  Var head_products(const Var& x, const std::string& name) {
    const model::Parameter& linear = architecture_.head.linear;
    const std::size_t parts = layers_.layout() == Layout::kAne ? (linear.out + kAneOutputs) / kAneOutputs : 1;
    if (parts == 1) return layers_.linear(x, linear, name);
    // Whole groups of 64 rows, so that palettes of groups of rows are not cut.
    const std::size_t step = (linear.out / parts / 64 + 1) * 64;
    std::vector<Var> pieces;
    for (std::size_t begin = 0; begin < linear.out; begin += step)
      pieces.push_back(layers_.linear_rows(x, linear, {begin, std::min(begin + step, linear.out)},
                                           fmt::format("products{}", pieces.size())));
    return concat(graph_, pieces, -1, name);
  }

  const Architecture& architecture_;
  Graph graph_;
  Layers layers_;
  std::unique_ptr<AttentionForm> form_;
  std::uint64_t tokens_ = kUnknown;
};

}  // namespace

void require_supported(const Architecture& architecture, Layout layout) {
  NIBBLE_REQUIRE(!architecture.blocks.empty(), InvalidArgument, "Core ML: a network without blocks");
  const AttentionSpec& first = architecture.blocks.front().attention;
  for (std::size_t b = 0; b < architecture.blocks.size(); ++b) {
    const BlockSpec& block = architecture.blocks[b];
    const AttentionSpec& attention = block.attention;
    NIBBLE_REQUIRE(!block.experts, InvalidArgument,
                   "Core ML: block {} is a mixture of experts, whose routing the package has no operations for", b);
    NIBBLE_REQUIRE(!attention.sinks, InvalidArgument,
                   "Core ML: block {} has attention sinks, which its attention operation does not know", b);
    NIBBLE_REQUIRE(block.mlp->activation != model::Activation::kClampedSwiglu, InvalidArgument,
                   "Core ML: block {} has the activation {}, which the package has no operation for", b,
                   model::activation_name(block.mlp->activation));
    NIBBLE_REQUIRE(
        layout == Layout::kAne || (attention.kv_heads == first.kv_heads && attention.head_dim == first.head_dim),
        InvalidArgument,
        "Core ML: block {} has {} key-value heads of {}, block 0 has {} of {}, and one state keeps them all; "
        "use --layout ane, whose blocks have states of their own",
        b, attention.kv_heads, attention.head_dim, first.kv_heads, first.head_dim);
  }
}

std::size_t position_limit(const Architecture& architecture) {
  std::size_t limit = architecture.positions ? architecture.position_limit() : architecture.max_positions;
  for (const BlockSpec& block : architecture.blocks) {
    if (block.attention.growth.by != 0.0) limit = std::min(limit, block.attention.growth.from);
    if (block.attention.rotary) {
      const model::RotaryScaling& scaling = block.attention.rotary->scaling;
      if (scaling.kind == model::RotaryScaling::Kind::kDynamic || scaling.kind == model::RotaryScaling::Kind::kLongRope)
        limit = std::min(limit, scaling.original_context);
    }
  }
  return limit;
}

Network build_network(const Architecture& architecture, const NetworkWeights& weights, const NetworkForm& form,
                      ConstantPool& pool) {
  require_supported(architecture, form.layout);
  NIBBLE_REQUIRE(form.positions > 0 && form.positions <= position_limit(architecture), InvalidArgument,
                 "Core ML: {} positions, and the model has {}", form.positions, position_limit(architecture));
  NIBBLE_REQUIRE(
      form.layout == Layout::kAne || form.positions > 1, InvalidArgument,
      "Core ML: a text of 1 position (--context): layout gpu takes calls of 1 to as many tokens as there are "
      "positions, expected at least 2; --layout ane takes 1");
  NIBBLE_REQUIRE(form.layout == Layout::kGpu || (form.tokens > 0 && form.past >= form.tokens), InvalidArgument,
                 "Core ML: a window of {} tokens behind {} positions: there must be as many positions", form.tokens,
                 form.past);
  return NetworkBuilder(architecture, weights, form, pool).build();
}

}  // namespace nibble::coreml

#include <cmath>

#include "core/error.h"
#include "export/coreml/attention.h"
#include "export/coreml/ops.h"

namespace nibble::coreml {
namespace {

using model::AttentionSpec;

class GpuAttention final : public AttentionForm {
 public:
  GpuAttention(Layers& layers, const model::Architecture& architecture, std::size_t context)
      : layers_(layers), g_(layers.graph()), context_(context) {
    const AttentionSpec& first = architecture.blocks.front().attention;
    const TensorType cache{DataType::kFloat16,
                           {architecture.blocks.size(), 1, first.kv_heads, context, first.head_dim}};
    ids_ = g_.input("inputIds", {DataType::kInt32, {1, kUnknown}});
    mask_ = g_.input("causalMask", {DataType::kFloat16, {1, 1, kUnknown, kUnknown}});
    keys_.state = g_.state("keyCache", cache);
    values_.state = g_.state("valueCache", cache);
    read_lengths();
    keys_.now = read(keys_, "keyCache_read");
    values_.now = read(values_, "valueCache_read");
  }

  const Var& ids() const override { return ids_; }
  const Var& positions() const override { return positions_; }

  Var attend(const AttentionSpec& spec, std::size_t block, const Var& q, const Var& k, const Var& v) override {
    const std::string name = fmt::format("block{}_", block);
    const Var all_k = repeated(spec, kept(keys_, block, k, name + "keys"), name + "keys");
    const Var all_v = repeated(spec, kept(values_, block, v, name + "values"), name + "values");
    const Var mask = mask_of(spec);
    if (spec.softcap > 0.0) {
      const Var scores = matmul(g_, layers_.scaled(q, spec.scale, name + "scaled"), all_k, true, name + "scores");
      const Var masked = add(g_, layers_.softcap(scores, spec.softcap, name + "capped"), mask, name + "masked");
      return matmul(g_, softmax(g_, masked, name + "shares"), all_v, false, name + "attended");
    }
    // The operation itself divides by √head_dim.
    const double factor = spec.scale * std::sqrt(static_cast<double>(spec.head_dim));
    const Var query = std::abs(factor - 1.0) < 1e-7 ? q : layers_.scaled(q, factor, name + "scaled");
    return g_.op("scaled_dot_product_attention",
                 {{"query", {query}}, {"key", {all_k}}, {"value", {all_v}}, {"attn_mask", {mask}}}, name + "attended");
  }

  Interface interface() const override {
    const auto& cache = keys_.state.type.tensor;
    return {{{ids_.name, DataType::kInt32, {1, 1}, {{1, 1}, {1, context_}}},
             {mask_.name, DataType::kFloat16, {1, 1, 1, 1}, {{1, 1}, {1, 1}, {1, context_}, {1, context_}}}},
            {},
            {{keys_.state.name, cache.type, cache.shape, {}}, {values_.state.name, cache.type, cache.shape, {}}}};
  }

 private:
  struct Cache {
    Var state, now;  // `now`: what it was last read as
  };

  Var read(const Cache& cache, const std::string& name) {
    return g_.op("read_state", {{"input", {cache.state}}}, name);
  }

  // T, S, the positions S - T … S - 1.
  void read_lengths() {
    const Var ids_shape = unary(g_, "shape", ids_, "ids_shape"), mask_shape = unary(g_, "shape", mask_, "mask_shape");
    const Var tokens = gather(g_, ids_shape, g_.integer(1), "tokens");
    end_ = gather(g_, mask_shape, g_.integer(3), "end_step");
    past_ = sub(g_, end_, tokens, "past");
    positions_ = g_.op("range_1d", {{"start", {past_}}, {"end", {end_}}, {"step", {g_.integer(1)}}}, "positions");
    end_slot_ = expand_dims(g_, end_, {0}, "end_slot");
    past_slot_ = expand_dims(g_, past_, {0}, "past_slot");
  }

  // Writes the rows into the block's part of the cache; gives all rows up to the last, (1, kv_heads, S, head_dim).
  Var kept(Cache& cache, std::size_t block, const Var& rows, const std::string& name) {
    const auto b = static_cast<std::int32_t>(block);
    const Var zero = g_.integers({0}), ones = g_.integers({1, 1, 1, 1, 1});
    const Var begin = concat(g_, {g_.integers({b}), zero, zero, past_slot_, zero}, 0, name + "_begin");
    const Var end = concat(g_, {g_.integers({b + 1}), zero, zero, end_slot_, zero}, 0, name + "_end");
    const Var between = g_.flags({false, true, true, false, true}),
              layer = g_.flags({true, false, false, false, false});
    const Var updated = g_.op("slice_update",
                              {{"x", {cache.now}},
                               {"update", {rows}},
                               {"begin", {begin}},
                               {"end", {end}},
                               {"stride", {ones}},
                               {"begin_mask", {between}},
                               {"end_mask", {between}},
                               {"squeeze_mask", {layer}}},
                              name + "_updated");
    g_.effect("write_state", {{"input", {cache.state}}, {"data", {updated}}}, name + "_write");
    cache.now = read(cache, name + "_now");
    return g_.op("slice_by_index",
                 {{"x", {cache.now}},
                  {"begin", {g_.integers({b, 0, 0, 0, 0})}},
                  {"end", {end}},
                  {"stride", {ones}},
                  {"begin_mask", {g_.flags({false, true, true, true, true})}},
                  {"end_mask", {between}},
                  {"squeeze_mask", {layer}}},
                 name + "_all");
  }

  // Each key-value head once for every query head that reads it: the attention operation repeats none itself.
  Var repeated(const AttentionSpec& spec, const Var& rows, const std::string& name) {
    const auto times = static_cast<std::int32_t>(spec.heads / spec.kv_heads);
    if (times == 1) return rows;
    const Var tiled = g_.op(
        "tile", {{"x", {expand_dims(g_, rows, {2}, name + "_apart")}}, {"reps", {g_.integers({1, 1, times, 1, 1})}}},
        name + "_tiled");
    return reshape(g_, tiled, {1, static_cast<std::int32_t>(spec.heads), -1, static_cast<std::int32_t>(spec.head_dim)},
                   name + "_repeated");
  }

  // How many positions each key lies behind each query, (T, S).
  const Var& behind() {
    if (behind_.name.empty()) {
      const Var keys =
          g_.op("range_1d", {{"start", {g_.integer(0)}}, {"end", {end_}}, {"step", {g_.integer(1)}}}, "key_positions");
      behind_ =
          sub(g_, expand_dims(g_, positions_, {1}, "query_column"), expand_dims(g_, keys, {0}, "key_row"), "behind");
    }
    return behind_;
  }

  // The caller's mask, with what lies outside a block's own window and what distance costs.
  Var mask_of(const AttentionSpec& spec) {
    Var mask = mask_;
    if (spec.window > 0 && spec.window < context_) {
      Var& windowed = windows_[spec.window];
      if (windowed.name.empty()) {
        const Var outside =
            binary(g_, "greater_equal", behind(), g_.integer(static_cast<std::int32_t>(spec.window)), "outside");
        const Var cost = mul(g_, cast(g_, outside, "fp16", "outside_half"), g_.half(kMasked), "outside_cost");
        windowed = add(g_, mask_, expand_dims(g_, cost, {0, 1}, "outside_mask"), "window_mask");
      }
      mask = windowed;
    }
    if (spec.alibi.empty()) return mask;
    std::vector<float> slopes;
    for (const double slope : spec.alibi) slopes.push_back(static_cast<float>(-slope));
    const Var per_head = g_.stored(g_.pool().halves({1, slopes.size(), 1, 1}, slopes, "slopes"), "slopes");
    const Var distance = expand_dims(g_, cast(g_, behind(), "fp16", "distance"), {0, 1}, "distances");
    return add(g_, mul(g_, distance, per_head, "distance_cost"), mask, "distance_mask");
  }

  Layers& layers_;
  Graph& g_;
  std::size_t context_;
  Var ids_, mask_, end_, past_, positions_, end_slot_, past_slot_, behind_;
  Cache keys_, values_;
  std::map<std::size_t, Var> windows_;
};

}  // namespace

std::unique_ptr<AttentionForm> make_gpu_attention(Layers& layers, const model::Architecture& architecture,
                                                  std::size_t context) {
  return std::make_unique<GpuAttention>(layers, architecture, context);
}

}  // namespace nibble::coreml

#include <numeric>

#include "core/error.h"
#include "export/coreml/attention.h"
#include "export/coreml/ops.h"

namespace nibble::coreml {
namespace {

using model::AttentionSpec;

class AneAttention final : public AttentionForm {
 public:
  AneAttention(Layers& layers, const model::Architecture& architecture, std::size_t tokens, std::size_t past)
      : layers_(layers), g_(layers.graph()), tokens_(tokens), past_(past) {
    ids_ = g_.input("inputIds", {DataType::kInt32, {1, tokens}});
    first_ = g_.input("cachePosition", {DataType::kInt32, {1}});
    for (std::size_t b = 0; b < architecture.blocks.size(); ++b) {
      const AttentionSpec& spec = architecture.blocks[b].attention;
      const std::uint64_t heads = spec.kv_heads, width = spec.head_dim;
      keys_.push_back(g_.state(fmt::format("keyCache{}", b), {DataType::kFloat16, {1, heads, width, past}}));
      values_.push_back(g_.state(fmt::format("valueCache{}", b), {DataType::kFloat16, {1, heads, past, width}}));
    }
    std::vector<std::int32_t> rows(tokens);
    std::iota(rows.begin(), rows.end(), 0);
    const Var counted = add(g_, g_.integers(rows), first_, "counted");
    positions_ = binary(g_, "maximum", counted, g_.integer(0), "positions");  // padding stands at negative ones
  }

  const Var& ids() const override { return ids_; }
  const Var& positions() const override { return positions_; }

  Var attend(const AttentionSpec& spec, std::size_t block, const Var& q, const Var& k, const Var& v) override {
    const std::string name = fmt::format("block{}_", block);
    const Var columns = transpose(g_, k, {0, 1, 3, 2}, name + "key_columns");
    const Var all_k = kept(keys_[block], columns, 3, name + "keys");
    const Var all_v = kept(values_[block], v, 2, name + "values");
    const auto integer = [](std::size_t n) { return static_cast<std::int32_t>(n); };
    const std::int32_t heads = integer(spec.heads), groups = integer(spec.kv_heads), width = integer(spec.head_dim),
                       tokens = integer(tokens_), all = integer(tokens_ + past_);
    // The queries that read a key-value head lie behind each other: one product for all of them, nothing repeated.
    const Var rows = reshape(g_, layers_.scaled(q, spec.scale, name + "scaled"),
                             {1, groups, heads / groups * tokens, width}, name + "rows");
    Var scores =
        reshape(g_, matmul(g_, rows, all_k, false, name + "products"), {1, heads, tokens, all}, name + "scores");
    if (spec.softcap > 0.0) scores = layers_.softcap(scores, spec.softcap, name + "capped");
    const Var shares = softmax(g_, add(g_, scores, mask_of(spec), name + "masked"), name + "shares");
    const Var by_group = reshape(g_, shares, {1, groups, heads / groups * tokens, all}, name + "by_group");
    return reshape(g_, matmul(g_, by_group, all_v, false, name + "sums"), {1, heads, tokens, width}, name + "attended");
  }

  Interface interface() const override {
    Interface described;
    described.inputs = {{ids_.name, DataType::kInt32, {1, tokens_}, {}}, {first_.name, DataType::kInt32, {1}, {}}};
    for (const auto* caches : {&keys_, &values_})
      for (const Var& cache : *caches)
        described.states.push_back({cache.name, cache.type.tensor.type, cache.shape(), {}});
    return described;
  }

 private:
  // What is kept with the new rows behind it; the newest `past` of both are kept from now on.
  Var kept(const Var& state, const Var& rows, std::int32_t axis, const std::string& name) {
    const Var before = g_.op("read_state", {{"input", {state}}}, name + "_before");
    const Var all = concat(g_, {before, rows}, axis, name + "_all");
    const Var newest =
        slice_axis(g_, all, static_cast<std::size_t>(axis), static_cast<std::int32_t>(tokens_), 0, name + "_newest");
    g_.effect("write_state", {{"input", {state}}, {"data", {newest}}}, name + "_write");
    return all;
  }

  // Slots that hold no token yet: slot j is position first - past + j. (1, 1, 1, past + tokens)
  const Var& empty_slots() {
    if (empty_.name.empty()) {
      std::vector<std::int32_t> slots(past_ + tokens_);
      std::iota(slots.begin(), slots.end(), 0);
      const Var zero = sub(g_, g_.integer(static_cast<std::int32_t>(past_)), first_, "slot_of_first");
      const Var before = binary(g_, "less", g_.integers(slots), zero, "before_first");
      const Var cost = mul(g_, cast(g_, before, "fp16", "before_first_half"), g_.half(kMasked), "before_first_cost");
      empty_ = expand_dims(g_, cost, {0, 1, 2}, "empty_mask");
    }
    return empty_;
  }

  // 0 where token i sees slot j, which lies past + i - j positions behind it, less what distance costs.
  Var mask_of(const AttentionSpec& spec) {
    const std::size_t heads = std::max<std::size_t>(1, spec.alibi.size()), all = past_ + tokens_;
    std::vector<float> mask(heads * tokens_ * all, static_cast<float>(kMasked));
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t i = 0; i < tokens_; ++i)
        for (std::size_t j = 0; j <= past_ + i; ++j) {
          const std::size_t behind = past_ + i - j;
          if (spec.window > 0 && behind >= spec.window) continue;
          const double cost = spec.alibi.empty() ? 0.0 : spec.alibi[h] * static_cast<double>(behind);
          mask[(h * tokens_ + i) * all + j] = static_cast<float>(-cost);
        }
    const Var fixed = g_.stored(g_.pool().halves({1, heads, tokens_, all}, mask, "mask"), "mask");
    Var& whole = masks_[fixed.name];
    if (whole.name.empty()) whole = add(g_, fixed, empty_slots(), "block_mask");
    return whole;
  }

  Layers& layers_;
  Graph& g_;
  std::size_t tokens_, past_;
  Var ids_, first_, positions_, empty_;
  std::vector<Var> keys_, values_;
  std::map<std::string, Var> masks_;
};

}  // namespace

std::unique_ptr<AttentionForm> make_ane_attention(Layers& layers, const model::Architecture& architecture,
                                                  std::size_t tokens, std::size_t past) {
  return std::make_unique<AneAttention>(layers, architecture, tokens, past);
}

}  // namespace nibble::coreml

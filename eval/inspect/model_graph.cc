#include "eval/inspect/model_graph.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "core/error.h"
#include "core/matrix/dtype.h"
#include "model/checkpoint/narrow_tensors.h"
#include "model/checkpoint/weights.h"

namespace nibble::eval {
namespace {

using model::AttentionSpec;
using model::BlockSpec;
using model::MlpSpec;
using model::NormSpec;
using model::Parameter;

/// Puts the nodes of one section behind each other.
class SectionBuilder {
 public:
  SectionBuilder(const std::shared_ptr<const model::Checkpoint>& checkpoint, const quant::QuantizedWeights& quantized)
      : checkpoint_(checkpoint), narrow_(*checkpoint), quantized_(quantized) {}

  std::size_t add(GraphNode node) {
    section_.nodes.push_back(std::move(node));
    return section_.nodes.size() - 1;
  }

  std::size_t add(std::string operation, std::string title, std::vector<std::string> details,
                  std::vector<std::uint64_t> shape, std::vector<std::size_t> inputs) {
    GraphNode node;
    node.operation = std::move(operation), node.title = std::move(title), node.details = std::move(details);
    node.shape = std::move(shape), node.inputs = std::move(inputs);
    return add(std::move(node));
  }

  /// A matrix; `all` are those that it stands for (the same layer of every expert), `active` of which a token meets.
  std::size_t add_linear(const std::vector<const Parameter*>& all, double active, std::size_t input) {
    const Parameter& first = *all.front();
    GraphNode node;
    node.operation = "linear", node.title = std::string(model::role_name(first.role));
    node.module = first.module, node.shape = {first.out}, node.inputs = {input};
    node.details.push_back(fmt::format("{} to {}{}", first.in, first.out, first.biased ? ", bias" : ""));
    if (all.size() > 1) node.details.push_back(fmt::format("in each of {} experts", all.size()));
    for (const Parameter* p : all) {
      const auto [storage, bytes] = stored(*p);
      if (node.storage.empty()) node.storage = storage;
      if (node.storage != storage) node.storage = "mixed";
      node.weights += p->weights();
      node.bytes += bytes;
    }
    node.operations = 2.0 * static_cast<double>(first.weights()) * active;
    return add(std::move(node));
  }

  std::size_t add_norm(const std::optional<NormSpec>& norm, std::size_t input, std::uint64_t width) {
    if (!norm) return input;
    GraphNode node;
    node.operation = norm->kind == NormSpec::Kind::kLayer ? "layer_norm" : "rms_norm";
    node.title = std::string(model::role_name(norm->role));
    node.module = norm->module, node.shape = {width}, node.inputs = {input};
    if (norm->width != width) node.details.push_back(fmt::format("over groups of {}", norm->width));
    if (!norm->gain && norm->group_gains.empty()) node.details.emplace_back("without parameters");
    if (norm->gain_offset != 0.0) node.details.push_back(fmt::format("gain {:g} + w", norm->gain_offset));
    if (norm->gain) add_gain(*norm->gain, node);
    for (const model::Stored& gain : norm->group_gains) add_gain(gain, node);
    return add(std::move(node));
  }

  GraphSection& section() { return section_; }

 private:
  void add_gain(const model::Stored& gain, GraphNode& node) const {
    const auto tensor = checkpoint_->tensor(model::find_tensor_name(*checkpoint_, gain.tensor).value_or(gain.tensor));
    node.storage = std::string(dtype_name(tensor.dtype));
    node.weights += gain.part.count;
    node.bytes += gain.part.count * dtype_size(tensor.dtype);
  }

  std::pair<std::string, std::uint64_t> stored(const Parameter& p) const {
    if (const auto found = quantized_.find(p.weight_module); found != quantized_.end())
      return {quant::storage_text(found->second->stored()), found->second->tensor().stored_bits() / 8};
    if (const auto narrow = narrow_.find(p.weight.tensor)) {
      const double bits = static_cast<double>(p.weights()) * narrow->bits_per_weight();
      return {narrow->storage(), static_cast<std::uint64_t>(bits / 8.0)};
    }
    const std::string own = p.weight_module + ".weight";
    const DType dtype = checkpoint_->tensor(model::find_tensor_name(*checkpoint_, p.weight.tensor).value_or(own)).dtype;
    return {std::string(dtype_name(dtype)), p.weights() * dtype_size(dtype)};
  }

  std::shared_ptr<const model::Checkpoint> checkpoint_;
  model::NarrowTensors narrow_;
  const quant::QuantizedWeights& quantized_;
  GraphSection section_;
};

std::string rotary_text(const model::RotarySpec& rotary) {
  using Kind = model::RotaryScaling::Kind;
  std::string text = fmt::format("{} of each head, base {:g}", rotary.dims, rotary.base);
  if (rotary.interleaved) text += ", interleaved";
  switch (rotary.scaling.kind) {
    case Kind::kNone:
      return text;
    case Kind::kLinear:
      return text + fmt::format(", linear × {:g}", rotary.scaling.factor);
    case Kind::kDynamic:
      return text + fmt::format(", dynamic × {:g}", rotary.scaling.factor);
    case Kind::kLlama3:
      return text + fmt::format(", by wavelength × {:g}", rotary.scaling.factor);
    case Kind::kYarn:
      return text + fmt::format(", yarn × {:g}", rotary.scaling.factor);
    case Kind::kLongRope:
      return text + ", factors per frequency";
  }
  return text;
}

std::vector<std::string> attention_details(const AttentionSpec& attention) {
  std::vector<std::string> details{fmt::format("{} heads of {}", attention.heads, attention.head_dim)};
  if (attention.kv_heads != attention.heads)
    details.front() += fmt::format(", {} for keys and values", attention.kv_heads);
  details.push_back(fmt::format("scores × {:.4g}", attention.scale));
  details.push_back(attention.window > 0 ? fmt::format("window {}", attention.window) : "causal");
  if (attention.softcap > 0.0) details.push_back(fmt::format("scores capped at {:g}", attention.softcap));
  if (!attention.alibi.empty()) details.emplace_back("ALiBi");
  if (attention.growth.by != 0.0)
    details.push_back(
        fmt::format("queries × (1 + {:g} ln(1 + ⌊position / {}⌋))", attention.growth.by, attention.growth.from));
  if (attention.sinks) details.emplace_back("a sink per head");
  if (!attention.rotary && attention.alibi.empty()) details.emplace_back("no rotary embedding");
  return details;
}

std::size_t add_attention(SectionBuilder& builder, const AttentionSpec& attention, std::size_t input) {
  std::size_t q = builder.add_linear({&attention.q}, 1.0, input);
  std::size_t k = builder.add_linear({&attention.k}, 1.0, input);
  std::size_t v = builder.add_linear({&attention.v}, 1.0, input);
  if (attention.clip > 0.0) {
    const auto clip = [&](std::size_t of, std::uint64_t width) {
      return builder.add("clip", "clip", {fmt::format("to ± {:g}", attention.clip)}, {width}, {of});
    };
    q = clip(q, attention.q_width()), k = clip(k, attention.kv_width()), v = clip(v, attention.kv_width());
  }
  const auto normalise = [&] {
    q = builder.add_norm(attention.q_norm, q, attention.q_width());
    k = builder.add_norm(attention.k_norm, k, attention.kv_width());
  };
  if (!attention.norms_behind_rotary) normalise();
  if (attention.rotary) {
    q = builder.add("rotary", "rotary", {rotary_text(*attention.rotary)}, {attention.heads, attention.head_dim}, {q});
    k = builder.add("rotary", "rotary", {rotary_text(*attention.rotary)}, {attention.kv_heads, attention.head_dim},
                    {k});
  }
  if (attention.norms_behind_rotary) normalise();
  const std::size_t attended = builder.add("attention", "attention", attention_details(attention),
                                           {attention.heads, attention.head_dim}, {q, k, v});
  return builder.add_linear({&attention.o}, 1.0, attended);
}

// `same` are the MLPs that this one stands for: of every expert, or it alone.
std::size_t add_mlp(SectionBuilder& builder, const std::vector<const MlpSpec*>& same, double active,
                    std::size_t input) {
  const MlpSpec& mlp = *same.front();
  const auto of_all = [&](const std::function<const Parameter*(const MlpSpec&)>& member) {
    std::vector<const Parameter*> all;
    for (const MlpSpec* one : same) all.push_back(member(*one));
    return all;
  };
  std::vector<std::size_t> inner;
  if (mlp.gate) inner.push_back(builder.add_linear(of_all([](const MlpSpec& m) { return &*m.gate; }), active, input));
  inner.push_back(builder.add_linear(of_all([](const MlpSpec& m) { return &m.up; }), active, input));
  const std::size_t activated =
      builder.add("activation", std::string(model::activation_name(mlp.activation)),
                  {mlp.gate ? "of the gate, times up" : "elementwise"}, {mlp.intermediate()}, inner);
  return builder.add_linear(of_all([](const MlpSpec& m) { return &m.down; }), active, activated);
}

std::vector<std::string> routing_details(const model::ExpertsSpec& mixture) {
  using Routing = model::ExpertsSpec::Routing;
  std::vector<std::string> details{fmt::format("{} of {} experts", mixture.active, mixture.experts.size())};
  if (mixture.groups > 1)
    details.push_back(fmt::format("of the best {} of {} groups", mixture.active_groups, mixture.groups));
  if (mixture.routing == Routing::kTopThenSoftmax) {
    details.emplace_back("the largest, softmax over them");
  } else {
    details.push_back(fmt::format("{}, the largest{}",
                                  mixture.routing == Routing::kSigmoidThenTop ? "sigmoid" : "softmax",
                                  mixture.renormalise ? ", renormalised" : ""));
  }
  if (mixture.correction) details.emplace_back("chosen with a correction");
  if (mixture.scale != 1.0) details.push_back(fmt::format("weights × {:g}", mixture.scale));
  return details;
}

std::size_t add_mixture(SectionBuilder& builder, const model::ExpertsSpec& mixture, std::size_t input,
                        std::uint64_t hidden) {
  const std::size_t router = builder.add_linear({&mixture.router}, 1.0, input);
  const std::size_t route = builder.add("route", "route", routing_details(mixture), {mixture.active}, {router, input});
  std::vector<const MlpSpec*> all;
  for (const MlpSpec& expert : mixture.experts) all.push_back(&expert);
  const std::size_t experts = add_mlp(builder, all, static_cast<double>(mixture.active), route);
  std::vector<std::size_t> parts{experts, route};
  if (mixture.shared) {
    std::size_t shared = add_mlp(builder, {&*mixture.shared}, 1.0, input);
    if (mixture.shared_gate) {
      const std::size_t gate = builder.add_linear({&*mixture.shared_gate}, 1.0, input);
      shared = builder.add("scale", "sigmoid of the gate", {"times the shared expert"}, {hidden}, {shared, gate});
    }
    parts.push_back(shared);
  }
  return builder.add("combine", "weighted sum", {}, {hidden}, std::move(parts));
}

std::size_t add_feed_forward(SectionBuilder& builder, const BlockSpec& block, std::size_t input, std::uint64_t hidden) {
  return block.mlp ? add_mlp(builder, {&*block.mlp}, 1.0, input) : add_mixture(builder, *block.experts, input, hidden);
}

std::size_t add_sum(SectionBuilder& builder, const BlockSpec& block, std::vector<std::size_t> parts,
                    std::uint64_t hidden) {
  std::vector<std::string> details;
  if (block.residual_multiplier != 1.0) details.push_back(fmt::format("added × {:g}", block.residual_multiplier));
  return builder.add("add", "add", std::move(details), {hidden}, std::move(parts));
}

void add_block(SectionBuilder& builder, const BlockSpec& block, std::uint64_t hidden) {
  const std::size_t x = builder.add("input", "residual stream", {}, {hidden}, {});
  const std::size_t normed = builder.add_norm(block.attention_norm, x, hidden);
  const std::size_t attention =
      builder.add_norm(block.attention_post_norm, add_attention(builder, block.attention, normed), hidden);
  if (block.residual == BlockSpec::Residual::kParallel) {
    const std::size_t mlp_input = block.mlp_norm ? builder.add_norm(block.mlp_norm, x, hidden) : normed;
    const std::size_t mlp =
        builder.add_norm(block.mlp_post_norm, add_feed_forward(builder, block, mlp_input, hidden), hidden);
    add_sum(builder, block, {x, attention, mlp}, hidden);
    return;
  }
  const std::size_t middle = add_sum(builder, block, {x, attention}, hidden);
  const std::size_t mlp_normed = builder.add_norm(block.mlp_norm, middle, hidden);
  const std::size_t mlp =
      builder.add_norm(block.mlp_post_norm, add_feed_forward(builder, block, mlp_normed, hidden), hidden);
  add_sum(builder, block, {middle, mlp}, hidden);
}

void add_embedding(SectionBuilder& builder, const model::Architecture& a) {
  const std::size_t ids = builder.add("input", "token ids", {}, {1}, {});
  std::size_t x = builder.add_linear({&a.embedding}, 0.0, ids);
  builder.section().nodes[x].operation = "lookup";
  builder.section().nodes[x].details = {fmt::format("{} rows of {}", a.vocabulary, a.hidden)};
  builder.section().nodes[x].shape = {a.hidden};
  if (a.embedding_scale != 1.0)
    x = builder.add("scale", "scale", {fmt::format("× {:g}", a.embedding_scale)}, {a.hidden}, {x});
  if (a.positions) {
    const std::size_t p = builder.add_linear({&*a.positions}, 0.0, ids);
    builder.section().nodes[p].operation = "lookup";
    builder.section().nodes[p].details = {fmt::format("{} positions", a.max_positions)};
    builder.section().nodes[p].shape = {a.hidden};
    x = builder.add("add", "add", {}, {a.hidden}, {x, p});
  }
  builder.add_norm(a.embedding_norm, x, a.hidden);
}

void add_head(SectionBuilder& builder, const model::Architecture& a) {
  std::size_t x = builder.add("input", "residual stream", {}, {a.hidden}, {});
  x = builder.add_norm(a.final_norm, x, a.hidden);
  x = builder.add_linear({&a.head.linear}, 1.0, x);
  if (a.head.tied) builder.section().nodes[x].details.emplace_back("the embedding's weight");
  if (a.head.scale != 1.0)
    x = builder.add("scale", "scale", {fmt::format("× {:g}", a.head.scale)}, {a.vocabulary}, {x});
  if (a.head.softcap > 0.0)
    x = builder.add("softcap", "soft cap", {fmt::format("at {:g}", a.head.softcap)}, {a.vocabulary}, {x});
  builder.add("output", "logits", {}, {a.vocabulary}, {x});
}

bool alike(const GraphSection& a, const GraphSection& b) {
  return std::equal(
      a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), [](const GraphNode& x, const GraphNode& y) {
        const auto all = [](const GraphNode& n) {
          return std::tie(n.operation, n.title, n.details, n.storage, n.shape, n.weights, n.bytes, n.inputs);
        };
        return all(x) == all(y);
      });
}

// "block 3", "blocks 0 to 5", "blocks 0, 2, 4, 6".
std::string blocks_name(const std::vector<std::size_t>& blocks) {
  if (blocks.size() == 1) return fmt::format("block {}", blocks.front());
  if (blocks.back() - blocks.front() + 1 == blocks.size())
    return fmt::format("blocks {} to {}", blocks.front(), blocks.back());
  return fmt::format("blocks {}", fmt::join(blocks, ", "));
}

}  // namespace

ModelGraph graph_of(const std::shared_ptr<const model::Checkpoint>& checkpoint,
                    const quant::QuantizedWeights& quantized) {
  const model::Architecture& a = checkpoint->architecture();
  ModelGraph graph{model::describe(a), {}};
  const auto section = [&](const auto& fill) {
    SectionBuilder builder(checkpoint, quantized);
    fill(builder);
    return std::move(builder.section());
  };
  graph.sections.push_back(section([&](SectionBuilder& b) { add_embedding(b, a); }));
  graph.sections.back().name = "embedding";
  for (std::size_t i = 0; i < a.blocks.size(); ++i) {
    GraphSection block = section([&](SectionBuilder& b) { add_block(b, a.blocks[i], a.hidden); });
    const auto known = std::find_if(graph.sections.begin() + 1, graph.sections.end(),
                                    [&](const GraphSection& other) { return alike(other, block); });
    GraphSection& place = known != graph.sections.end() ? *known : graph.sections.emplace_back(std::move(block));
    place.blocks.push_back(i);
  }
  for (GraphSection& s : graph.sections)
    if (!s.blocks.empty()) s.name = blocks_name(s.blocks);
  graph.sections.push_back(section([&](SectionBuilder& b) { add_head(b, a); }));
  graph.sections.back().name = "head";
  return graph;
}

}  // namespace nibble::eval

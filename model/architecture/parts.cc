#include "model/architecture/parts.h"

#include <bit>
#include <cmath>
#include <map>

namespace nibble::model {

Parameter linear(Role role, std::size_t block, const std::string& module, std::size_t out, std::size_t in,
                 bool biased) {
  Parameter p;
  p.role = role, p.block = block, p.module = p.weight_module = module, p.out = out, p.in = in, p.biased = biased;
  p.weight = whole_matrix(module + ".weight", out, in);
  p.bias = whole_vector(module + ".bias", out);
  return p;
}

Parameter part_of(const Fused& fused, Role role, std::size_t block, const std::string& name, RowSet part) {
  Parameter p;
  p.role = role, p.block = block, p.out = part.count, p.in = fused.in, p.biased = fused.biased;
  p.module = p.weight_module = name.empty() ? fused.module : fused.module + "." + name;
  p.weight = whole_matrix(fused.weight.empty() ? fused.module + ".weight" : fused.weight, fused.rows, fused.in,
                          fused.transposed);
  p.bias = whole_vector(fused.bias.empty() ? fused.module + ".bias" : fused.bias, fused.rows);
  for (Stored* stored : {&p.weight, &p.bias})
    stored->part = part, stored->slices = fused.slices, stored->slice = fused.slice;
  return p;
}

NormSpec norm(NormSpec::Kind kind, Role role, std::size_t block, const std::string& module, std::size_t width,
              double epsilon, bool with_bias, double gain_offset) {
  NormSpec spec;
  spec.kind = kind, spec.role = role, spec.block = block, spec.width = width, spec.epsilon = epsilon;
  spec.gain_offset = gain_offset, spec.module = module;
  spec.gain = whole_vector(module + ".weight", width);
  if (with_bias) spec.bias = whole_vector(module + ".bias", width);
  return spec;
}

NormSpec plain_norm(NormSpec::Kind kind, Role role, std::size_t block, std::size_t width, double epsilon) {
  NormSpec spec;
  spec.kind = kind, spec.role = role, spec.block = block, spec.width = width, spec.epsilon = epsilon;
  return spec;
}

void set_grouped_qkv(AttentionSpec& attention, const Fused& fused, std::size_t block) {
  const std::size_t queries = attention.heads / attention.kv_heads * attention.head_dim;
  const std::size_t stride = queries + 2 * attention.head_dim;
  const RowSet q{0, queries, stride, attention.q_width()};
  const RowSet k{queries, attention.head_dim, stride, attention.kv_width()};
  const RowSet v{queries + attention.head_dim, attention.head_dim, stride, attention.kv_width()};
  attention.q = part_of(fused, Role::kQ, block, "q", q);
  attention.k = part_of(fused, Role::kK, block, "k", k);
  attention.v = part_of(fused, Role::kV, block, "v", v);
}

std::vector<double> alibi_slopes(std::size_t heads) {
  const std::size_t power = std::bit_floor(heads);
  std::vector<double> slopes;
  for (std::size_t i = 1; i <= power; ++i)
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(power)));
  for (std::size_t i = 1; slopes.size() < heads; i += 2)
    slopes.push_back(std::exp2(-4.0 * static_cast<double>(i) / static_cast<double>(power)));
  return slopes;
}

ExpertsSpec mixture(std::size_t block, const std::string& router, std::size_t hidden, std::size_t count,
                    std::size_t active, const std::function<MlpSpec(std::size_t expert)>& expert) {
  ExpertsSpec spec;
  spec.active = active;
  spec.router = linear(Role::kRouter, block, router, count, hidden);
  for (std::size_t e = 0; e < count; ++e) {
    MlpSpec mlp = expert(e);
    if (mlp.gate) mlp.gate->expert = e;
    mlp.up.expert = mlp.down.expert = e;
    spec.experts.push_back(std::move(mlp));
  }
  return spec;
}

MlpSpec shared_expert(MlpSpec mlp) {
  if (mlp.gate) mlp.gate->shared_expert = true;
  mlp.up.shared_expert = mlp.down.shared_expert = true;
  return mlp;
}

namespace {

void connect(MlpSpec& mlp, const std::string& shared_with, const std::string& fed_by) {
  std::string first = shared_with;
  const auto reads = [&](Parameter& p) {
    p.input_of = first;
    p.fed_by = fed_by;
    if (first.empty()) first = p.module;
  };
  if (mlp.gate) reads(*mlp.gate);
  reads(mlp.up);
  mlp.down.writes_residual = true;
}

// The module of a norm that has a gain to fold scales into.
std::string foldable(const std::optional<NormSpec>& norm) { return norm && norm->gain ? norm->module : std::string(); }

void connect(BlockSpec& block) {
  AttentionSpec& attention = block.attention;
  const bool one_norm = block.residual == BlockSpec::Residual::kParallel && !block.mlp_norm;
  // A norm that feeds a mixture feeds its router too, which is no linear layer that scales could be folded into.
  const std::string attention_norm = one_norm && block.experts ? std::string() : foldable(block.attention_norm);
  attention.k.input_of = attention.v.input_of = attention.q.module;
  attention.q.fed_by = attention.k.fed_by = attention.v.fed_by = attention_norm;
  attention.o.writes_residual = true;
  if (block.mlp) {
    if (one_norm) {
      connect(*block.mlp, attention.q.module, attention_norm);
    } else {
      connect(*block.mlp, "", foldable(block.mlp_norm));
    }
  }
  if (!block.experts) return;
  for (MlpSpec& expert : block.experts->experts) connect(expert, "", "");
  if (block.experts->shared) connect(*block.experts->shared, "", "");
}

}  // namespace

void connect(Architecture& architecture) {
  for (BlockSpec& block : architecture.blocks) connect(block);
  std::map<std::string, std::size_t> readers;
  for (const Parameter* p : linear_layers(architecture)) ++readers[p->fed_by];
  for (BlockSpec& block : architecture.blocks) {
    const auto count = [&](Parameter& p) { p.norm_readers = p.fed_by.empty() ? 0 : readers.at(p.fed_by); };
    for (Parameter* p : {&block.attention.q, &block.attention.k, &block.attention.v}) count(*p);
    if (!block.mlp) continue;
    if (block.mlp->gate) count(*block.mlp->gate);
    count(block.mlp->up);
  }
}

void set_embedding_and_head(Architecture& architecture, const std::string& module, bool tied, bool head_biased,
                            const std::string& head_tensors) {
  const std::size_t outside = architecture.blocks.size();
  architecture.embedding =
      linear(Role::kEmbedding, outside, module, architecture.vocabulary, architecture.hidden, false);
  Parameter& head = architecture.head.linear;
  head = linear(Role::kHead, outside, head_tensors, architecture.vocabulary, architecture.hidden, head_biased);
  // What hooks, statistics and recipes call it, whatever a family's files do.
  head.module = head.weight_module = "lm_head";
  architecture.head.module_of_files = head_tensors;
  architecture.head.tied = tied;
  if (!tied) return;
  head.weight = architecture.embedding.weight;
  head.weight_module = architecture.embedding.module;
}

}  // namespace nibble::model

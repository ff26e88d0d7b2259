#include "model/gguf/gguf_layout.h"

#include <algorithm>
#include <map>

#include "model/gguf/gguf_rotary.h"

namespace nibble::model {
namespace {

GgufParameter named(const Parameter& parameter, bool bias) {
  return {parameter.role, parameter.block, parameter.expert, parameter.shared_expert, bias};
}

class Layout {
 public:
  Layout(const Architecture& architecture, const GgufArchitecture& names,
         const std::function<bool(const Parameter&)>& has_bias)
      : names_(names), has_bias_(has_bias), experts_(architecture.blocks.size(), 0) {
    for (std::size_t i = 0; i < architecture.blocks.size(); ++i)
      if (architecture.blocks[i].experts) experts_[i] = architecture.blocks[i].experts->experts.size();
    if (names.rotary == GgufArchitecture::Rotary::kInterleaved)
      for (const BlockSpec& block : architecture.blocks) {  // those that turn nothing too
        heads_[&block.attention.q] = block.attention.heads;
        heads_[&block.attention.k] = block.attention.kv_heads;
      }
    for (const Parameter* const matrix : matrices(architecture)) add_matrix(*matrix);
    if (architecture.head.tied && !architecture.head.linear.bias.tensor.empty())
      biases_[gguf_tensor_name(names, {.role = Role::kHead, .bias = true})].push_back(&architecture.head.linear);
    if (architecture.head.tied && names.head == GgufArchitecture::Head::kWritten)
      tensors_.push_back({.name = gguf_tensor_name(names, {.role = Role::kHead}),
                          .shape = {architecture.embedding.out, architecture.embedding.in},
                          .matrices = {{&architecture.embedding}}});
    for (const auto& [name, members] : biases_) add_bias(name, members);
    for (const BlockSpec& block : architecture.blocks) add_norms(block);
    for (const auto* const norm : {&architecture.embedding_norm, &architecture.final_norm})
      if (*norm) add_norm(**norm, (*norm)->role);
    for (auto& [name, values] : gguf_rotary_factors(architecture, names)) {
      GgufLayoutTensor& factors = tensors_.emplace_back(GgufLayoutTensor{.name = name, .shape = {values.size()}});
      factors.values = std::move(values);
    }
  }

  std::vector<GgufLayoutTensor> take() { return std::move(tensors_); }

 private:
  std::size_t heads_of(const Parameter& parameter) const {
    const auto found = heads_.find(&parameter);
    return found == heads_.end() ? 0 : found->second;
  }

  GgufLayoutTensor& tensor(const std::string& name) {
    const auto [found, added] = index_.try_emplace(name, tensors_.size());
    if (added) tensors_.push_back({.name = name, .shape = {}});
    return tensors_[found->second];
  }

  void add_matrix(const Parameter& parameter) {
    GgufLayoutTensor& entry = tensor(gguf_weight_name(names_, parameter));
    entry.matrices.push_back({&parameter, heads_of(parameter)});
    entry.wide = parameter.role == Role::kRouter || parameter.role == Role::kSharedExpertGate;
    if (parameter.expert) {
      entry.shape = {experts_.at(parameter.block), parameter.out, parameter.in};
    } else if (entry.shape.empty()) {
      entry.shape = {parameter.out, parameter.in};
    } else {
      entry.shape.front() += parameter.out;
    }
    if (parameter.bias.tensor.empty()) return;
    const std::string weight = entry.name;
    biases_[weight.substr(0, weight.rfind('.')) + ".bias"].push_back(&parameter);
  }

  void add_bias(const std::string& name, const std::vector<const Parameter*>& members) {
    if (std::none_of(members.begin(), members.end(), [&](const Parameter* p) { return has_bias_(*p); })) return;
    GgufLayoutTensor entry{.name = name, .shape = {}};
    std::size_t size = 0;
    for (const Parameter* const member : members) {
      entry.vectors.push_back({member->bias, heads_of(*member), 0.0, true});
      size += member->out;
    }
    const Parameter& first = *members.front();
    if (first.expert) {
      entry.shape = {experts_.at(first.block), first.out};
    } else {
      entry.shape = {size};
    }
    tensors_.push_back(std::move(entry));
  }

  // Falcon's norm for attention and MLP both is called as the MLP's own is where there are two.
  void add_norms(const BlockSpec& block) {
    const AttentionSpec& attention = block.attention;
    const bool one = block.residual == BlockSpec::Residual::kParallel && !block.mlp_norm;
    if (block.attention_norm) add_norm(*block.attention_norm, one ? Role::kMlpNorm : Role::kAttentionNorm);
    for (const auto* const norm :
         {&attention.q_norm, &attention.k_norm, &block.attention_post_norm, &block.mlp_norm, &block.mlp_post_norm})
      if (*norm) add_norm(**norm, (*norm)->role);
    for (const LooseVector& vector : loose_vectors(block)) {
      const std::string name = gguf_tensor_name(
          names_, {.role = vector.role, .block = vector.block, .bias = gguf_ends_in_bias(vector.role)});
      GgufLayoutTensor& entry = tensor(name);
      entry.shape = {vector.values.part.count};
      entry.vectors.push_back({vector.values});
    }
  }

  // `role` says how it is called: another than its own in blocks with one norm for both branches, if the architecture
  // has names of its own for those.
  void add_norm(const NormSpec& norm, Role role) {
    if (names_.other_names.empty() || role != Role::kMlpNorm || norm.role != Role::kAttentionNorm) role = norm.role;
    const auto add = [&](const std::vector<Stored>& pieces, bool bias, double plus) {
      GgufLayoutTensor& entry = tensor(gguf_tensor_name(
          names_, {.role = role, .block = norm.block, .expert = {}, .shared_expert = false, .bias = bias}));
      if (pieces.size() > 1) entry.shape = {pieces.size()};
      entry.shape.push_back(pieces.front().part.count);
      for (const Stored& piece : pieces) entry.vectors.push_back({piece, 0, plus});
    };
    const double plus = names_.gain_plus_one ? norm.gain_offset : 0.0;
    if (norm.gain) add({*norm.gain}, false, plus);
    if (!norm.group_gains.empty()) add(norm.group_gains, false, plus);
    if (norm.bias) add({*norm.bias}, true, 0.0);
  }

  const GgufArchitecture& names_;
  const std::function<bool(const Parameter&)>& has_bias_;
  std::vector<std::size_t> experts_;  ///< of each block
  std::map<const Parameter*, std::size_t> heads_;
  std::map<std::string, std::size_t> index_;
  std::map<std::string, std::vector<const Parameter*>> biases_;
  std::vector<GgufLayoutTensor> tensors_;
};

}  // namespace

std::vector<GgufLayoutTensor> gguf_layout(const Architecture& architecture, const GgufArchitecture& names,
                                          const std::function<bool(const Parameter&)>& has_bias) {
  return Layout(architecture, names, has_bias).take();
}

std::string gguf_weight_name(const GgufArchitecture& names, const Parameter& parameter) {
  return gguf_tensor_name(names, named(parameter, false));
}

}  // namespace nibble::model

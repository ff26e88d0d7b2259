#include "model/architecture/architecture.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "core/text/choice.h"

namespace nibble::model {
namespace {

constexpr std::array<Choice<Activation>, 6> kActivations = {{
    {"silu", Activation::kSilu},
    {"gelu_tanh", Activation::kGeluTanh},
    {"gelu", Activation::kGelu},
    {"relu", Activation::kRelu},
    {"relu2", Activation::kRelu2},
    {"clamped_swiglu", Activation::kClampedSwiglu},
}};

template <class Visit>
void visit_linears(const MlpSpec& mlp, const Visit& visit) {
  if (mlp.gate) visit(*mlp.gate);
  visit(mlp.up);
  visit(mlp.down);
}

// Linear layers of a block in order of use, with routers and gates of shared experts where `all`.
template <class Visit>
void visit_linears(const BlockSpec& block, bool all, const Visit& visit) {
  visit(block.attention.q);
  visit(block.attention.k);
  visit(block.attention.v);
  visit(block.attention.o);
  if (block.mlp) visit_linears(*block.mlp, visit);
  if (!block.experts) return;
  const ExpertsSpec& experts = *block.experts;
  if (all) visit(experts.router);
  for (const MlpSpec& expert : experts.experts) visit_linears(expert, visit);
  if (experts.shared) visit_linears(*experts.shared, visit);
  if (all && experts.shared_gate) visit(*experts.shared_gate);
}

template <class Size>
std::size_t largest(const Architecture& architecture, const Size& size) {
  std::size_t most = 0;
  for (const BlockSpec& block : architecture.blocks) most = std::max(most, size(block));
  return most;
}

void add_norm(std::vector<const NormSpec*>& list, const std::optional<NormSpec>& norm) {
  if (norm) list.push_back(&*norm);
}

// Positions that rotary embeddings reach: of most scalings max_positions has the factor in it already, but files with
// dynamic scaling, and some with YaRN (Qwen 2.5), go on saying what the network was trained with before.
std::size_t rotary_limit(const RotarySpec& rotary, std::size_t max_positions) {
  const RotaryScaling& scaling = rotary.scaling;
  // Of linear scaling there are files of both kinds: rather no warning than a wrong one.
  if (scaling.kind == RotaryScaling::Kind::kLinear)
    return static_cast<std::size_t>(scaling.factor * static_cast<double>(max_positions));
  if (scaling.kind != RotaryScaling::Kind::kDynamic && scaling.kind != RotaryScaling::Kind::kYarn) return max_positions;
  const double reached = scaling.factor * static_cast<double>(scaling.original_context);
  return std::max(max_positions, static_cast<std::size_t>(reached));
}

// The longest of all blocks; 0 where none has rotary embeddings.
std::size_t rotary_limit(const Architecture& architecture) {
  std::size_t limit = 0;
  for (const BlockSpec& block : architecture.blocks)
    if (const auto& rotary = block.attention.rotary)
      limit = std::max(limit, rotary_limit(*rotary, architecture.max_positions));
  return limit;
}

}  // namespace

double QueryGrowth::at(std::size_t position) const {
  const std::size_t steps = position / from;
  return 1.0 + by * std::log(1.0 + static_cast<double>(steps));
}

std::string_view activation_name(Activation activation) { return name_of(activation, kActivations); }

std::size_t BlockSpec::intermediate() const {
  std::size_t most = mlp ? mlp->intermediate() : 0;
  if (!experts) return most;
  for (const MlpSpec& expert : experts->experts) most = std::max(most, expert.intermediate());
  return experts->shared ? std::max(most, experts->shared->intermediate()) : most;
}

std::size_t Architecture::position_limit() const {
  return learned_positions() ? max_positions : std::numeric_limits<std::size_t>::max();
}
std::size_t Architecture::largest_intermediate() const {
  return largest(*this, [](const BlockSpec& block) { return block.intermediate(); });
}
bool Architecture::has_experts() const {
  return std::any_of(blocks.begin(), blocks.end(), [](const BlockSpec& block) { return block.experts.has_value(); });
}

std::vector<std::string> Architecture::candidates(const std::string& name) const {
  std::vector<std::string> names{name};
  if (!prefix.empty()) names.push_back(name.starts_with(prefix) ? name.substr(prefix.size()) : prefix + name);
  return names;
}

bool is_attention(const Parameter& layer) {
  return layer.role == Role::kQ || layer.role == Role::kK || layer.role == Role::kV || layer.role == Role::kO;
}

bool is_corrected_router(const Architecture& architecture, const Parameter& matrix) {
  return matrix.role == Role::kRouter && architecture.blocks[matrix.block].experts->correction.has_value();
}

const std::string& Architecture::bias_key(const Parameter& layer) const {
  static const std::string none;
  if (layer.role == Role::kO && !output_bias_has_key) return none;
  return is_attention(layer) ? attention_bias_key : mlp_bias_key;
}

void Architecture::ignore_undeclared_biases() {
  const auto layers = linear_layers(*this);
  for (const bool declared : {false, true})
    for (const Parameter* const p : layers) {
      if (bias_key(*p).empty() || p->bias.tensor.empty()) continue;
      for (std::string& name : candidates(p->bias.tensor)) {
        if (declared && p->biased) undeclared_biases.erase(name);
        if (!declared && !p->biased) undeclared_biases.insert(std::move(name));
      }
    }
}

bool Architecture::is_tied_head(std::string_view stored) const {
  const std::string_view bias = head.linear.bias.tensor;
  return head.tied && bias.ends_with("bias") && stored.ends_with("weight") &&
         stored.substr(0, stored.size() - 6) == bias.substr(0, bias.size() - 4);
}

bool Architecture::is_ignored(std::string_view stored) const {
  if (is_tied_head(stored)) return true;
  if (undeclared_biases.contains(stored)) return true;
  for (const std::string& ignored : ignored_prefixes)
    for (const std::string& name : candidates(ignored))
      if (stored.starts_with(name)) return true;
  return std::any_of(ignored_suffixes.begin(), ignored_suffixes.end(),
                     [&](const std::string& suffix) { return stored.ends_with(suffix); });
}

std::vector<const Parameter*> linear_layers(const BlockSpec& block) {
  std::vector<const Parameter*> list;
  visit_linears(block, false, [&](const Parameter& p) { list.push_back(&p); });
  return list;
}

bool same_linear_layers(const Architecture& a, const Architecture& b) {
  const auto layers = linear_layers(a), others = linear_layers(b);
  return std::equal(layers.begin(), layers.end(), others.begin(), others.end(), [](const auto* x, const auto* y) {
    return x->module == y->module && x->out == y->out && x->in == y->in;
  });
}

std::vector<const Parameter*> linear_layers(const Architecture& architecture) {
  std::vector<const Parameter*> list;
  for (const BlockSpec& block : architecture.blocks)
    visit_linears(block, false, [&](const Parameter& p) { list.push_back(&p); });
  return list;
}

std::vector<const Parameter*> matrices(const Architecture& architecture) {
  std::vector<const Parameter*> list{&architecture.embedding};
  if (architecture.positions) list.push_back(&*architecture.positions);
  for (const BlockSpec& block : architecture.blocks)
    visit_linears(block, true, [&](const Parameter& p) { list.push_back(&p); });
  if (!architecture.head.tied) list.push_back(&architecture.head.linear);
  return list;
}

std::vector<const Parameter*> bias_holders(const Architecture& architecture) {
  std::vector<const Parameter*> list = matrices(architecture);
  if (architecture.head.tied) list.push_back(&architecture.head.linear);
  return list;
}

std::vector<const NormSpec*> norms(const Architecture& architecture) {
  std::vector<const NormSpec*> list;
  add_norm(list, architecture.embedding_norm);
  for (const BlockSpec& block : architecture.blocks) {
    add_norm(list, block.attention_norm);
    add_norm(list, block.attention.q_norm);
    add_norm(list, block.attention.k_norm);
    add_norm(list, block.attention_post_norm);
    add_norm(list, block.mlp_norm);
    add_norm(list, block.mlp_post_norm);
  }
  add_norm(list, architecture.final_norm);
  return list;
}

std::vector<LooseVector> loose_vectors(const BlockSpec& block) {
  const std::size_t number = block.attention.q.block;
  std::vector<LooseVector> list;
  if (block.attention.sinks) list.push_back({Role::kSinks, number, *block.attention.sinks});
  if (block.experts && block.experts->correction)
    list.push_back({Role::kRouterCorrection, number, *block.experts->correction});
  return list;
}

std::vector<FileTensor> file_tensors(const Architecture& architecture) {
  std::vector<FileTensor> list;
  std::set<std::string> seen;
  const auto add = [&](const Stored& stored, FileTensor tensor) {
    if (!seen.insert(stored.tensor).second) return;
    tensor.name = stored.tensor;
    tensor.shape = stored.shape();
    list.push_back(std::move(tensor));
  };
  for (const Parameter* p : matrices(architecture)) {
    FileTensor tensor;
    tensor.role = p->role, tensor.block = p->block, tensor.in = p->in, tensor.writes_residual = p->writes_residual;
    add(p->weight, tensor);
    tensor.bias = true, tensor.required = p->biased, tensor.in = 0;
    if (p->biased) add(p->bias, tensor);
  }
  if (architecture.head.tied && architecture.head.linear.biased) {
    FileTensor tensor;
    tensor.role = Role::kHead, tensor.block = architecture.blocks.size(), tensor.bias = true;
    add(architecture.head.linear.bias, tensor);
  }
  for (const NormSpec* norm : norms(architecture)) {
    FileTensor tensor;
    tensor.role = norm->role, tensor.block = norm->block, tensor.gain_offset = norm->gain_offset;
    if (norm->gain) add(*norm->gain, tensor);
    for (const Stored& gain : norm->group_gains) add(gain, tensor);
    tensor.bias = true;
    if (norm->bias) add(*norm->bias, tensor);
  }
  for (const BlockSpec& block : architecture.blocks)
    for (const LooseVector& vector : loose_vectors(block)) {
      FileTensor tensor;
      tensor.role = vector.role, tensor.block = vector.block;
      add(vector.values, tensor);
    }
  return list;
}

namespace {

std::size_t side_by_side(const BlockSpec& block) {
  const MlpSpec* mlp = block.mlp ? &*block.mlp : &block.experts->experts.front();
  return mlp->gate ? 2 : 1;
}

// Of a mixture: a logit per expert, and `times` rows of the residual's width for what is gathered for the experts.
std::size_t mixture_floats(const BlockSpec& block, std::size_t times) {
  return block.experts ? block.experts->experts.size() + times * block.experts->router.in : 0;
}

}  // namespace

// Term by term as the buffers of model/transformer/layers/block.h and feed_forward.h, of which each keeps the size that
// the largest block needs.
std::uint64_t forward_floats_per_token(const Architecture& architecture) {
  const std::size_t hidden = architecture.hidden;
  const auto most = [&](const auto& size) { return largest(architecture, size); };
  return hidden + most([&](const BlockSpec& b) { return b.attention_norm || b.mlp_norm ? hidden : 0; }) +
         most(
             [&](const BlockSpec& b) { return std::max(b.attention.q_width() + 2 * b.attention.kv_width(), hidden); }) +
         most([&](const BlockSpec& b) { return std::max(b.attention.q_width(), hidden); }) +
         most([](const BlockSpec& b) { return side_by_side(b) * b.intermediate(); }) +
         most([](const BlockSpec& b) { return mixture_floats(b, 2); });
}

std::uint64_t backward_floats_per_token(const Architecture& architecture) {
  const std::size_t hidden = architecture.hidden;
  const auto most = [&](const auto& size) { return largest(architecture, size); };
  const auto hidden_where = [&](const auto& needed) {
    return most([&](const BlockSpec& b) { return needed(b) ? hidden : 0; });
  };
  const std::size_t recomputed =
      hidden_where([](const BlockSpec& b) { return b.attention_norm || b.mlp_norm; }) +
      most([&](const BlockSpec& b) { return std::max(b.attention.q_width() + 2 * b.attention.kv_width(), hidden); }) +
      most([&](const BlockSpec& b) { return std::max(b.attention.q_width(), hidden); }) + most([](const BlockSpec& b) {
        const AttentionSpec& a = b.attention;
        return a.q_norm || a.k_norm || a.clip > 0.0 ? a.q_width() + a.kv_width() : 0;
      }) +
      hidden_where([](const BlockSpec& b) { return b.attention_post_norm.has_value(); }) +
      hidden_where([](const BlockSpec& b) { return b.residual == BlockSpec::Residual::kSequential; }) +
      hidden_where([](const BlockSpec& b) { return b.mlp_norm.has_value(); }) +
      hidden_where([](const BlockSpec& b) { return b.mlp_post_norm.has_value(); }) +
      most([](const BlockSpec& b) { return b.attention.heads; });
  const std::size_t gradients =
      2 * hidden + hidden_where([](const BlockSpec& b) {
        return b.attention_post_norm || b.mlp_post_norm || b.residual_multiplier != 1.0;
      }) +
      most([](const BlockSpec& b) { return b.attention.q_width() + 2 * b.attention.kv_width(); }) +
      most([&](const BlockSpec& b) { return std::max(b.attention.q_width(), hidden); });
  return recomputed + gradients + most([](const BlockSpec& b) { return (side_by_side(b) + 2) * b.intermediate(); }) +
         most([](const BlockSpec& b) { return mixture_floats(b, 3); });
}

bool frequencies_follow_length(const Architecture& architecture) {
  return std::any_of(architecture.blocks.begin(), architecture.blocks.end(), [](const BlockSpec& block) {
    if (!block.attention.rotary) return false;
    const RotaryScaling::Kind kind = block.attention.rotary->scaling.kind;
    return kind == RotaryScaling::Kind::kDynamic || kind == RotaryScaling::Kind::kLongRope;
  });
}

std::optional<std::string> warning_of_length(const Architecture& architecture, std::size_t tokens) {
  const std::size_t limit = rotary_limit(architecture);
  if (architecture.learned_positions() || limit == 0 || tokens <= limit) return std::nullopt;
  return fmt::format(
      "windows of {} tokens exceed the {} positions that the model was trained with: expect worse results", tokens,
      limit);
}

std::optional<std::string> warning_of_special_tokens(const Architecture& architecture) {
  const std::vector<std::string>& beyond = architecture.tokens_beyond_vocabulary;
  if (beyond.empty()) return std::nullopt;
  return fmt::format("{} {} beyond the vocabulary of {} tokens: as if config.json did not name {}",
                     fmt::join(beyond, ", "), beyond.size() == 1 ? "is" : "are", architecture.vocabulary,
                     beyond.size() == 1 ? "it" : "them");
}

double active_linear_weights(const Architecture& architecture) {
  double weights = 0.0;
  for (const BlockSpec& block : architecture.blocks) {
    const double share =
        block.experts ? static_cast<double>(block.experts->active) / static_cast<double>(block.experts->experts.size())
                      : 1.0;
    visit_linears(block, true,
                  [&](const Parameter& p) { weights += static_cast<double>(p.weights()) * (p.expert ? share : 1.0); });
  }
  return weights;
}

double prompt_flops(const Architecture& architecture, std::size_t tokens) {
  const auto n = static_cast<double>(tokens);
  double attention = 0.0;
  for (const BlockSpec& block : architecture.blocks) {
    const std::size_t window = block.attention.window;
    // Keys that queries see in all: a triangle, cut off at the window.
    double seen = n * (n + 1.0) / 2.0;
    if (window > 0 && tokens > window) {
      const double beyond = n - static_cast<double>(window);
      seen -= beyond * (beyond + 1.0) / 2.0;
    }
    attention += 4.0 * static_cast<double>(block.attention.q_width()) * seen;
  }
  const double head = 2.0 * static_cast<double>(architecture.vocabulary) * static_cast<double>(architecture.hidden);
  return 2.0 * n * active_linear_weights(architecture) + attention + head;
}

std::string describe(const Architecture& architecture) {
  const BlockSpec& block = architecture.blocks.front();
  const AttentionSpec& attention = block.attention;
  std::string text = fmt::format("{}, {} layers, width {}, {} heads", architecture.family, architecture.blocks.size(),
                                 architecture.hidden, attention.heads);
  if (attention.kv_heads != attention.heads) text += fmt::format(" ({} for keys and values)", attention.kv_heads);
  text += fmt::format(" of {}, MLP {}", attention.head_dim, architecture.largest_intermediate());
  for (const BlockSpec& mixture : architecture.blocks) {
    if (!mixture.experts) continue;
    text += fmt::format(", {} experts ({} active{})", mixture.experts->experts.size(), mixture.experts->active,
                        mixture.experts->shared ? ", one shared" : "");
    break;
  }
  std::size_t windowed = 0, window = 0;
  for (const BlockSpec& b : architecture.blocks)
    if (b.attention.window > 0) ++windowed, window = b.attention.window;
  if (windowed > 0) text += fmt::format(", window {} in {} of the layers", window, windowed);
  return text + fmt::format(", vocabulary {}, {} positions, {} head", architecture.vocabulary,
                            architecture.max_positions, architecture.head.tied ? "tied" : "untied");
}

}  // namespace nibble::model

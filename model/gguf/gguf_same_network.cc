#include "model/gguf/gguf_same_network.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "core/error.h"

namespace nibble::model {
namespace {

/// A float's half unit in the last place is 6e-8 of it; frequencies are powers of such numbers.
constexpr double kTolerance = 1e-5;

std::string_view kind_text(NormSpec::Kind kind) { return kind == NormSpec::Kind::kLayer ? "LayerNorm" : "RMSNorm"; }

class Comparison {
 public:
  Comparison(const Architecture& network, const Architecture& read, std::size_t context)
      : family_(network.family), context_(context) {
    same("number of blocks", network.blocks.size(), read.blocks.size());
    number("scale of embeddings", network.embedding_scale, read.embedding_scale);
    number("scale of logits", network.head.scale, read.head.scale);
    number("soft cap of logits", network.head.softcap, read.head.softcap);
    same("number of learned positions", network.positions.has_value(), read.positions.has_value());
    same("first learned position", network.position_offset, read.position_offset);
    norm("norm of the embedding", network.embedding_norm, read.embedding_norm);
    norm("final norm", network.final_norm, read.final_norm);
    for (std::size_t i = 0; i < network.blocks.size(); ++i) {
      block_ = i;
      block(network.blocks[i], read.blocks[i]);
    }
  }

 private:
  [[noreturn]] void differ(std::string_view what, const std::string& own, const std::string& theirs) const {
    throw InvalidArgument(
        fmt::format("GGUF: what llama.cpp makes of a '{}' is another network than this: {}{} is {} here and {} there",
                    family_, block_ ? fmt::format("block {}: ", *block_) : "", what, own, theirs));
  }

  template <class T>
  void same(std::string_view what, const T& own, const T& theirs) const {
    if (own != theirs) differ(what, fmt::format("{}", own), fmt::format("{}", theirs));
  }

  void number(std::string_view what, double own, double theirs) const {
    if (own != theirs && !(std::abs(own - theirs) <= kTolerance * std::abs(own)))  // NaN is like nothing
      differ(what, fmt::format("{}", own), fmt::format("{}", theirs));
  }

  void norm(std::string_view what, const std::optional<NormSpec>& own, const std::optional<NormSpec>& theirs) const {
    same(fmt::format("{} (whether there is one)", what), own.has_value(), theirs.has_value());
    if (!own) return;
    same(fmt::format("kind of {}", what), kind_text(own->kind), kind_text(theirs->kind));
    same(fmt::format("width of {}", what), own->width, theirs->width);
    number(fmt::format("epsilon of {}", what), own->epsilon, theirs->epsilon);
  }

  /// A window as wide as the context is none.
  std::size_t window_of(const AttentionSpec& spec) const { return spec.window >= context_ ? 0 : spec.window; }

  /// Growth that begins behind the context is none.
  double growth_of(const AttentionSpec& spec) const { return spec.growth.from >= context_ ? 0.0 : spec.growth.by; }

  void rotary(const std::optional<RotarySpec>& own, const std::optional<RotarySpec>& theirs) const {
    same("rotary embedding (whether there is one)", own.has_value(), theirs.has_value());
    if (!own) return;
    same("number of elements that turn", own->dims, theirs->dims);
    same("whether neighbours turn together", own->interleaved, theirs->interleaved);
    number("magnitude of rotary embeddings", own->scaling.magnitude, theirs->scaling.magnitude);
    // llama.cpp always rounds the bounds of YaRN's ramp, which gpt-oss does not: everybody's files of it are so, and
    // the reader takes them for what they are files of.
    RotarySpec file = *theirs;
    if (family_ == "gpt_oss") file.scaling.truncate = own->scaling.truncate;
    for (const std::size_t length : std::set<std::size_t>{1, context_}) {
      const auto wanted = rotary_frequencies(*own, length), got = rotary_frequencies(file, length);
      for (std::size_t i = 0; i < wanted.size(); ++i)
        number(fmt::format("rotary frequency {} over {} positions", i, length), wanted[i], got[i]);
    }
  }

  void attention(const AttentionSpec& own, const AttentionSpec& theirs) const {
    same("number of heads", own.heads, theirs.heads);
    same("number of key-value heads", own.kv_heads, theirs.kv_heads);
    same("size of heads", own.head_dim, theirs.head_dim);
    number("scale of scores", own.scale, theirs.scale);
    same("window", window_of(own), window_of(theirs));
    number("soft cap of scores", own.softcap, theirs.softcap);
    number("clip of q, k and v", own.clip, theirs.clip);
    number("growth of queries", growth_of(own), growth_of(theirs));
    if (growth_of(own) != 0.0) same("position from which queries grow", own.growth.from, theirs.growth.from);
    same("number of ALiBi slopes", own.alibi.size(), theirs.alibi.size());
    for (std::size_t i = 0; i < own.alibi.size(); ++i) number("slope of ALiBi", own.alibi[i], theirs.alibi[i]);
    same("sinks (whether there are any)", own.sinks.has_value(), theirs.sinks.has_value());
    rotary(own.rotary, theirs.rotary);
    norm("norm of q", own.q_norm, theirs.q_norm);
    norm("norm of k", own.k_norm, theirs.k_norm);
    same("whether norms of q and k stand behind the rotary embedding", own.norms_behind_rotary,
         theirs.norms_behind_rotary);
  }

  void mlp(const MlpSpec& own, const MlpSpec& theirs) const {
    same("activation", activation_name(own.activation), activation_name(theirs.activation));
    same("gate (whether there is one)", own.gate.has_value(), theirs.gate.has_value());
    number("limit of the activation", own.limit, theirs.limit);
    number("alpha of the activation", own.alpha, theirs.alpha);
  }

  void experts(const ExpertsSpec& own, const ExpertsSpec& theirs) const {
    const auto sum_to_one = [](const ExpertsSpec& spec) {  // either way the same numbers
      return spec.routing == ExpertsSpec::Routing::kTopThenSoftmax || spec.renormalise;
    };
    const auto sigmoids = [](const ExpertsSpec& spec) { return spec.routing == ExpertsSpec::Routing::kSigmoidThenTop; };
    same("number of experts", own.experts.size(), theirs.experts.size());
    same("number of active experts", own.active, theirs.active);
    same("whether experts' weights sum to 1", sum_to_one(own), sum_to_one(theirs));
    same("whether experts' weights are sigmoids", sigmoids(own), sigmoids(theirs));
    same("correction of experts (whether there is one)", own.correction.has_value(), theirs.correction.has_value());
    same("number of groups of experts", own.groups, theirs.groups);
    same("number of chosen groups of experts", own.active_groups, theirs.active_groups);
    number("scale of experts' weights", own.scale, theirs.scale);
    mlp(own.experts.front(), theirs.experts.front());
    same("shared expert (whether there is one)", own.shared.has_value(), theirs.shared.has_value());
    same("gate of the shared expert (whether there is one)", own.shared_gate.has_value(),
         theirs.shared_gate.has_value());
    if (own.shared) mlp(*own.shared, *theirs.shared);
  }

  void block(const BlockSpec& own, const BlockSpec& theirs) const {
    same("whether attention and MLP are side by side", own.residual == BlockSpec::Residual::kParallel,
         theirs.residual == BlockSpec::Residual::kParallel);
    number("multiplier of the residual", own.residual_multiplier, theirs.residual_multiplier);
    norm("norm before attention", own.attention_norm, theirs.attention_norm);
    norm("norm behind attention", own.attention_post_norm, theirs.attention_post_norm);
    norm("norm before the MLP", own.mlp_norm, theirs.mlp_norm);
    norm("norm behind the MLP", own.mlp_post_norm, theirs.mlp_post_norm);
    attention(own.attention, theirs.attention);
    same("mixture of experts (whether there is one)", own.experts.has_value(), theirs.experts.has_value());
    if (own.mlp) mlp(*own.mlp, *theirs.mlp);
    if (own.experts) experts(*own.experts, *theirs.experts);
  }

  std::string family_;
  std::size_t context_;
  std::optional<std::size_t> block_;
};

}  // namespace

void require_same_network(const Architecture& network, const Architecture& read, std::size_t context) {
  Comparison(network, read, context);
}

}  // namespace nibble::model

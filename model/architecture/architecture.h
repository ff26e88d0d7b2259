#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/parameter.h"
#include "model/architecture/rotary.h"

namespace nibble::model {

/// A normalisation over groups of `width` values, then gain and bias:
///   layer  y = (x - mean x) / sqrt(mean (x - mean x)² + epsilon) · (gain + gain_offset) + bias
///   rms    y = x / sqrt(mean x² + epsilon) · (gain + gain_offset)
struct NormSpec {
  enum class Kind { kLayer, kRms };
  Kind kind = Kind::kRms;
  Role role = Role::kAttentionNorm;
  std::size_t block = 0;
  std::size_t width = 0;
  double epsilon = 1e-5;
  double gain_offset = 0.0;
  std::string module;               ///< "model.layers.0.input_layernorm"; "" for a norm without parameters
  std::optional<Stored> gain;       ///< `width` values for every group; none: 1
  std::vector<Stored> group_gains;  ///< instead of `gain`: `width` values for each group in turn (a gain per head)
  std::optional<Stored> bias;
};

/// f of a gated (f(gate) · up) or plain (f(up)) MLP.
enum class Activation {
  kSilu,
  kGeluTanh,  ///< 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))
  kGelu,      ///< x Φ(x)
  kRelu,
  kRelu2,          ///< relu(x)²
  kClampedSwiglu,  ///< g = min(gate, limit), u = clamp(up, ±limit): g σ(alpha g) (u + 1)
};
std::string_view activation_name(Activation activation);

/// Queries of later positions are longer, so that their attention stays sharp over many keys: q of position p is
/// multiplied by  1 + by · ln(1 + ⌊p / from⌋),  1 within the first `from` positions.
struct QueryGrowth {
  double by = 0.0;  ///< 0: none grows
  std::size_t from = 1;
  double at(std::size_t position) const;
};

struct AttentionSpec {
  std::size_t heads = 0, kv_heads = 0, head_dim = 0;
  double scale = 0.0;           ///< of scores
  std::size_t window = 0;       ///< positions that a query sees, itself included; 0: all before it
  double softcap = 0.0;         ///< scores become c · tanh(scores / c); 0: they stay
  double clip = 0.0;            ///< q, k and v are clamped to ± this, before norms and rotary; 0: they are not
  std::vector<double> alibi;    ///< slope per head, score += slope · (key position − query position); or empty
  std::optional<Stored> sinks;  ///< (heads): a logit per head in the softmax's denominator alone
  std::optional<RotarySpec> rotary;
  QueryGrowth growth;                      ///< behind the rotary embedding
  std::optional<NormSpec> q_norm, k_norm;  ///< before the rotary embedding; per head where width = head_dim, else whole
  bool norms_behind_rotary = false;        ///< they stand behind it instead, and before the growth
  Parameter q, k, v, o;

  std::size_t q_width() const { return heads * head_dim; }
  std::size_t kv_width() const { return kv_heads * head_dim; }
};

struct MlpSpec {
  Activation activation = Activation::kSilu;
  double limit = 0.0, alpha = 0.0;  ///< of kClampedSwiglu
  std::optional<Parameter> gate;
  Parameter up, down;

  std::size_t intermediate() const { return down.in; }
};

/// A mixture: y = Σ over the chosen experts of weight_e · mlp_e(x), plus the shared expert. With the router's logits l:
///   score_e   softmax(l)_e, l_e or σ(l_e), by `routing`
///   chosen    the `active` largest score_e + correction_e, of the `active_groups` best of `groups` groups: a group is
///             experts / groups experts in a row, and is worth the sum of its two largest score_e + correction_e
///   weight_e  scale · score_e, divided by the sum of the chosen scores where `renormalise`; of logits as scores,
///             scale · softmax over the chosen
struct ExpertsSpec {
  enum class Routing {
    kSoftmaxThenTop,  ///< probabilities over all experts
    kTopThenSoftmax,  ///< logits
    kSigmoidThenTop,  ///< of each logit by itself; their sum has 1e-20 added
  };
  Routing routing = Routing::kSoftmaxThenTop;
  bool renormalise = false;
  std::size_t active = 0;
  std::size_t groups = 1, active_groups = 1;
  double scale = 1.0;
  Parameter router;                  ///< (experts, hidden)
  std::optional<Stored> correction;  ///< (experts): decides which are chosen, and is in no weight
  std::vector<MlpSpec> experts;
  std::optional<MlpSpec> shared;
  std::optional<Parameter> shared_gate;  ///< (1, hidden)

  /// So many experts side by side are the shared one.
  std::size_t shared_count() const { return shared ? shared->intermediate() / experts.front().intermediate() : 0; }
};

/// One block over the residual stream x, with m = residual_multiplier:
///   sequential  x += m · post_a(attention(norm_a(x)));  x += m · post_m(mlp(norm_m(x)))
///   parallel    x += m · (attention(norm_a(x)) + mlp(norm_m(x))), where an absent norm_m is norm_a
/// An absent norm leaves its input as it is. Exactly one of mlp and experts is there.
struct BlockSpec {
  enum class Residual { kSequential, kParallel };
  Residual residual = Residual::kSequential;
  double residual_multiplier = 1.0;
  std::optional<NormSpec> attention_norm, attention_post_norm, mlp_norm, mlp_post_norm;
  AttentionSpec attention;
  std::optional<MlpSpec> mlp;
  std::optional<ExpertsSpec> experts;

  /// Width inside the MLP; of a mixture the widest of its experts.
  std::size_t intermediate() const;
};

struct HeadSpec {
  Parameter linear;                         ///< module "lm_head"; its weight is the embedding's where `tied`
  std::string module_of_files = "lm_head";  ///< what the family's files and their own program call that, `tied` or not
  bool tied = false;
  double scale = 1.0;    ///< logits are multiplied by it
  double softcap = 0.0;  ///< then become c · tanh(logits / c); 0: they stay
};

/// A decoder-only transformer, told as data: what the network is built from, and what everybody asks who wants to know
/// what a weight is for. Made by a family's file from config.json (families.h). Value type; no I/O.
struct Architecture {
  std::string family;  ///< model_type, or the one that a config.json means by another (Ministral 8B says "mistral")
  std::size_t vocabulary = 0;
  std::size_t hidden = 0;  ///< width of the residual stream
  std::size_t max_positions = 0;
  double embedding_scale = 1.0;
  std::vector<BlockSpec> blocks;
  Parameter embedding;
  std::optional<Parameter> positions;  ///< learned positions: row p + position_offset is position p's
  std::size_t position_offset = 0;
  std::optional<NormSpec> embedding_norm, final_norm;
  HeadSpec head;
  std::optional<std::uint32_t> bos, eos;
  std::vector<std::uint32_t> stop_tokens;  ///< every id that ends a text; the first is `eos`
  /// "bos_token_id 50256": what config.json names and the vocabulary has no row for. No token, as in transformers.
  std::vector<std::string> tokens_beyond_vocabulary;
  /// A prefix that files have or lack in front of the names here ("transformer."); a stored name with it is the
  /// same tensor as one without.
  std::string prefix;
  /// The names here are those without the prefix (or with it, if false).
  bool names_lack_prefix = false;
  /// Of tensors beside the network's own ("model.layers.46." of a network of 46 blocks: multi-token prediction).
  std::vector<std::string> ignored_prefixes;
  std::vector<std::string> ignored_suffixes;  ///< of constants that files carry along and that are no parameters
  /// Names of biases, as files may have them, that are no tensors of this network: see ignore_undeclared_biases().
  std::set<std::string, std::less<>> undeclared_biases;
  /// Keys of config.json that say whether linear layers have biases, for exports that add some.
  std::string attention_bias_key, mlp_bias_key;
  bool output_bias_has_key = true;  ///< attention_bias_key speaks of what attention puts out, too
  /// That of a linear layer of a block; empty where the family has none.
  const std::string& bias_key(const Parameter& layer) const;

  bool learned_positions() const { return positions.has_value(); }
  /// Positions that a sequence may have: those learned; without learned ones there is no limit.
  std::size_t position_limit() const;
  std::size_t largest_intermediate() const;
  bool has_experts() const;

  /// The names under which a file may hold tensor `name`, nearest first.
  std::vector<std::string> candidates(const std::string& name) const;
  /// Biases of layers for which a key of the configuration says that there are none become tensors that is_ignored()
  /// names; until then, and where there is no such key, a bias is used wherever there is one: exports of corrected
  /// biases have no other way to say so.
  void ignore_undeclared_biases();
  /// Whether a stored tensor is a head that is tied: some files hold it beside the embedding, which counts.
  bool is_tied_head(std::string_view stored) const;
  /// Constants and layers that files carry along, a tied head that is stored again, and biases as said.
  bool is_ignored(std::string_view stored) const;
};

/// The linear layers of all blocks in order of use (q, k, v, o, then the MLP or each expert in turn, then the shared
/// expert); routers and gates of shared experts are not among them, nor is the head. Pointers into `architecture`.
std::vector<const Parameter*> linear_layers(const Architecture& architecture);
std::vector<const Parameter*> linear_layers(const BlockSpec& block);

/// Whether both have linear layers of the same names and shapes, in the same order: forms of one model.
bool same_linear_layers(const Architecture& a, const Architecture& b);
/// The same with everything else that is a matrix: embedding, positions, routers, gates, the head where it is not tied.
std::vector<const Parameter*> matrices(const Architecture& architecture);
/// Whatever may have a bias: matrices(), and the head where it is tied, whose weight is the embedding's and whose bias
/// its own.
std::vector<const Parameter*> bias_holders(const Architecture& architecture);
/// Whether a linear layer of a block is one of attention's.
bool is_attention(const Parameter& layer);
/// Whether it is the router of a mixture whose choice has a correction.
bool is_corrected_router(const Architecture& architecture, const Parameter& matrix);
/// All norms, in order of use.
std::vector<const NormSpec*> norms(const Architecture& architecture);

/// A vector of a block that belongs to no norm and no linear layer: sinks, the correction of a router.
struct LooseVector {
  Role role = Role::kSinks;
  std::size_t block = 0;
  Stored values;
};
std::vector<LooseVector> loose_vectors(const BlockSpec& block);

/// A tensor of a checkpoint file of this architecture, told once however many parameters it holds.
struct FileTensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  Role role = Role::kQ;  ///< of the first parameter in it
  std::size_t block = 0;
  std::size_t in = 0;  ///< inputs of the linear layer; 0 for vectors
  bool bias = false;
  bool required = true;  ///< false: a bias that the configuration does not speak of
  bool writes_residual = false;
  double gain_offset = 0.0;  ///< of a norm's gain
};
/// Every tensor that a file of this architecture must hold, once, in order of use.
std::vector<FileTensor> file_tensors(const Architecture& architecture);

/// Whether rotary frequencies of some block depend on how long a sequence is (RotaryScaling kDynamic, kLongRope).
bool frequencies_follow_length(const Architecture& architecture);

/// What a user should hear of sequences longer than the positions that a network with rotary embeddings was trained
/// with, those that its scaling adds included: a sentence, or none. Learned positions end where they end, and a network
/// without rotary embeddings (ALiBi) has no such number.
std::optional<std::string> warning_of_length(const Architecture& architecture, std::size_t tokens);

/// The same of special tokens that the vocabulary does not have.
std::optional<std::string> warning_of_special_tokens(const Architecture& architecture);

/// Floats of activations per token that the transformer keeps while it runs forward, or backward (transformer.h).
std::uint64_t forward_floats_per_token(const Architecture& architecture);
std::uint64_t backward_floats_per_token(const Architecture& architecture);

/// Weights of block linear layers that one token is multiplied with: all of a dense model, the active experts of a
/// mixture.
double active_linear_weights(const Architecture& architecture);
/// Floating-point operations of a prompt of `tokens`: two per weight met and token, attention over what each query
/// sees, and one row of logits.
double prompt_flops(const Architecture& architecture, std::size_t tokens);

/// "llama, 6 layers, width 384, 6 heads (2 for keys and values) of 64, MLP 1024, …"
std::string describe(const Architecture& architecture);

}  // namespace nibble::model

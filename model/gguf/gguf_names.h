#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/parameter.h"

namespace nibble::model {

/// How llama.cpp and its converter call and lay out one architecture's tensors. Facts of the format, as of 2026.
struct GgufArchitecture {
  /// What the rows of q and k are, against those of a Hugging Face checkpoint.
  enum class Rotary {
    kSame,         ///< the same: pairs are halves apart in both, or neighbours in both, or there are none
    kInterleaved,  ///< moved: halves apart there, neighbours in the file (gguf_source.h)
  };

  /// The linear layers whose bias llama.cpp adds; it refuses files with another.
  enum class Biases {
    kNone,
    kQkv,        ///< q, k, v
    kAttention,  ///< and what attention puts out
    kAll,        ///< and those of an MLP; of experts and routers only where its networks have them (gpt-oss)
  };

  std::string_view name;                                ///< `general.architecture`, and the prefix of its keys
  std::string_view model_type;                          ///< of config.json
  std::vector<std::string_view> more_model_types = {};  ///< of other families whose networks it can be
  Rotary rotary = Rotary::kSame;
  bool fused_qkv = false;      ///< files have q, k and v as one attn_qkv (as a rule: both are read)
  bool gate_in_up = false;     ///< ffn_up holds the gate's rows, then up's
  unsigned window_every = 0;   ///< of so many blocks all but the last have a window; 0: llama.cpp has none for it
  bool gain_plus_one = false;  ///< gains of norms have 1 added that a checkpoint leaves to the network
  /// Names that are not those of the others: "blk.N." left out.
  struct Name {
    Role role;
    std::string_view name;
  };
  std::vector<Name> other_names = {};
  bool heads_fill_width = false;  ///< it takes heads · head_dim to be the width of the network
  Biases biases = Biases::kQkv;
  bool expert_biases = false, head_bias = false;
  /// The output matrix of networks with a tied head: as a rule files leave it out.
  enum class Head {
    kEither,
    kWritten,  ///< llama.cpp wants it in the file, tied or not
    kTied,     ///< it knows networks with a tied head alone
  };
  Head head = Head::kEither;
  /// The tensors of factors for rotary frequencies that it loads; it refuses files with any other tensor.
  enum class Factors {
    kNone,
    kOne,       ///< `rope_freqs`: one list
    kOneOrTwo,  ///< that, or where `rope.scaling.type` is "longrope" a list for short texts and one for long ones
    kTwo,       ///< those two, without such a key
  };
  Factors factors = Factors::kNone;
  bool experts_demanded = false;  ///< it computes networks with experts in all blocks but the first few, and no others
  bool biases_demanded = false;   ///< it refuses files without those biases (of q, k and v: some of these do)
};

/// `expert_gating_func` of networks whose experts are weighed by sigmoids.
inline constexpr unsigned kGgufSigmoids = 2;

/// Whether llama.cpp adds a bias there.
bool gguf_takes_bias(const GgufArchitecture& architecture, const Parameter& parameter);

/// Whether llama.cpp loads so many lists of rotary factors (gguf_rotary.h): one for all texts, or one for short and one
/// for long ones. Where it knows two alone they may be the same.
bool gguf_takes_factors(const GgufArchitecture& architecture, std::size_t lists);

/// All that are known, and one by name; null for others.
std::span<const GgufArchitecture> gguf_architectures();
const GgufArchitecture* find_gguf_architecture(std::string_view name);
/// The one that networks of a model_type are written as; null for families that llama.cpp does not compute.
const GgufArchitecture* find_gguf_architecture_of_family(std::string_view model_type);
/// What messages say of an unknown one: the known names, nearest first where one is near.
std::string unknown_gguf_architecture(std::string_view name);

/// Which parameter, in the vocabulary of model/architecture.
struct GgufParameter {
  Role role = Role::kQ;
  std::size_t block = 0;
  std::optional<std::size_t> expert = {};
  bool shared_expert = false;
  bool bias = false;
};

/// Whether the name of a vector of this role (LooseVector) ends as a bias's does, not a weight's.
bool gguf_ends_in_bias(Role role);

/// A tensor that may hold a parameter.
struct GgufCandidate {
  /// Which rows of the tensor are the parameter's; `first` and so on count from its size against the tensor's.
  enum class Rows {
    kAll,
    kFirst,       ///< as many as it has, from the first: q, gate
    kBeforeLast,  ///< the last but so many: k, which v, of the same size, follows
    kLast,        ///< the last: v, up
  };

  std::string name;
  Rows rows = Rows::kAll;
  bool stacked = false;  ///< the tensor is a stack of all experts', slowest dimension first
};

/// Where a file of `architecture` may hold `parameter`: its own tensor first, then one that it shares. The first that
/// is there counts.
std::vector<GgufCandidate> gguf_candidates(const GgufArchitecture& architecture, const GgufParameter& parameter);

/// The name a writer gives it: that of the first candidate, but for a gate that stands in ffn_up (of falcon's attention
/// norm only where the MLP has one of its own; else it is "attn_norm").
std::string gguf_tensor_name(const GgufArchitecture& architecture, const GgufParameter& parameter);

}  // namespace nibble::model

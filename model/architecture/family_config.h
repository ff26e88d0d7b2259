#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "core/text/json_fields.h"
#include "model/architecture/architecture.h"

namespace nibble::model {

/// Generous limits: several times the largest models there are. They keep sums and products of extents far from
/// overflow; the weights themselves are checked against the files.
inline constexpr std::uint64_t kMaxVocabulary = 1u << 24, kMaxWidth = 1u << 20, kMaxLayers = 4096, kMaxHeads = 4096,
                               kMaxHeadDim = 4096, kMaxPositions = 1u << 26, kMaxExperts = 4096;

/// What a family's rotary embedding is where config.json does not say.
struct RotaryDefaults {
  double base = 10000.0;
  /// Share of each head that turns, where the family has such a setting; without it all of a head does, and a
  /// configuration that says otherwise is refused.
  std::optional<double> partial = {};
  std::string_view base_key = "rope_theta", partial_key = "partial_rotary_factor";
  std::size_t original_context = 0;  ///< original_max_position_embeddings; 0: max_position_embeddings
  bool yarn_means_longrope = false;  ///< an older name of it
  bool query_growth = false;         ///< the settings say how queries grow, too: the family's own business
};

/// config.json as families read it: typed fields, and the groups of keys that many families share.
class FamilyConfig : public JsonFields {
 public:
  using JsonFields::JsonFields;

  std::size_t vocabulary() const { return integer("vocab_size", 1, kMaxVocabulary); }
  /// head_dim; where it is absent `fallback`, or hidden / heads if that is 0. Throws where that does not divide.
  std::size_t head_dim(std::size_t hidden, std::size_t heads, std::size_t fallback = 0) const;
  /// The activation that `key` names; throws for one that is not computed.
  Activation activation(std::string_view key, std::string_view fallback) const;

  /// bos_token_id, eos_token_id (one, or a list) into `architecture`; those beyond its vocabulary only by name.
  void read_special_tokens(Architecture& architecture) const;

  /// The first of `keys` that is there as an integer from `min` to `max`; throws, naming the first, where none is.
  std::size_t integer_of(std::initializer_list<const char*> keys, std::size_t min, std::size_t max) const;
  std::size_t integer_of_or(std::initializer_list<const char*> keys, std::size_t fallback, std::size_t min,
                            std::size_t max) const;
  /// num_attention_heads-like keys that may be absent (`fallback`) or null (`heads`), and that divide `heads`.
  std::size_t kv_heads(std::string_view key, std::size_t heads, std::size_t fallback) const;
  /// Throws where so many of `what` in each of `layers` blocks are beyond reason (several times the largest models
  /// there are), before anybody allocates in proportion to them.
  void require_reasonable(std::string_view what, std::size_t count, std::size_t layers) const;
  /// As integer_or(), for a default that depends on another key for being possible: it is refused as well.
  std::uint64_t integer_within(std::string_view key, std::uint64_t fallback, std::uint64_t min,
                               std::uint64_t max) const;
  /// Width of the one MLP that `count` experts of `width` side by side are; `key` says how many. Throws where it is
  /// beyond reason.
  std::size_t shared_width(std::string_view key, std::size_t count, std::size_t width) const;
  /// num_experts_per_tok of `count` experts.
  std::size_t active_experts(std::size_t count, std::size_t fallback) const;

  /// rope_theta with rope_scaling or rope_parameters: base and scaling of a rotary embedding of heads of `head_dim`.
  /// `max_positions` stands in for a missing original_max_position_embeddings.
  RotarySpec rotary(std::size_t head_dim, std::size_t max_positions, const RotaryDefaults& defaults = {}) const;
  /// The same where windowed blocks have settings of their own: rope_parameters with members full_attention and
  /// sliding_attention; older spellings are rope_theta and rope_scaling for the others and `sliding_base_key` for the
  /// windowed.
  struct RotaryPair {
    RotarySpec full, sliding;
  };
  RotaryPair rotary_by_layer_type(std::size_t head_dim, std::size_t max_positions, double full_base,
                                  double sliding_base, std::string_view sliding_base_key) const;

  /// One object of rope settings (rope_type and what goes with it).
  RotaryScaling rotary_scaling(const JsonFields& fields, std::size_t dims, std::size_t max_positions,
                               const RotaryDefaults& defaults = {}) const;

  /// sliding_window; `fallback` where it is absent, 0 where it is null.
  std::size_t window(std::size_t fallback) const;
  /// Which blocks see a window only, by layer_types, or by `otherwise` (of the block's number) where that is absent.
  /// Throws for types of layers that are not known.
  std::vector<bool> windowed_blocks(std::size_t layers, const std::function<bool(std::size_t)>& otherwise) const;
  /// Gives those blocks the window. Throws where there is a windowed block and no window.
  void set_windows(Architecture& architecture, const std::vector<bool>& windowed, std::size_t window) const;

  /// Keys that nobody read and that are not known to leave the network's values alone.
  std::vector<std::string> not_understood() const;
};

/// original_max_position_embeddings: what stands beside the rope settings goes before what stands in them.
std::size_t original_context(const JsonFields& settings, const JsonFields& config, std::size_t fallback);

}  // namespace nibble::model

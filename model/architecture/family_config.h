#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/json_fields.h"
#include "model/architecture/architecture.h"

namespace nibble::model {

/// Generous limits: several times the largest models there are. They keep sums and products of extents far from
/// overflow; the weights themselves are checked against the files.
inline constexpr std::uint64_t kMaxVocabulary = 1u << 24, kMaxWidth = 1u << 20, kMaxLayers = 4096, kMaxHeads = 4096,
                               kMaxHeadDim = 4096, kMaxPositions = 1u << 26, kMaxExperts = 4096;

/// config.json as families read it: typed fields, and the groups of keys that many families share.
class FamilyConfig : public JsonFields {
 public:
  using JsonFields::JsonFields;

  std::size_t vocabulary() const { return integer("vocab_size", 1, kMaxVocabulary); }
  /// head_dim, or hidden / heads. Throws where that does not divide.
  std::size_t head_dim(std::size_t hidden, std::size_t heads) const;
  /// The activation that `key` names; throws for one that is not computed.
  Activation activation(std::string_view key, std::string_view fallback) const;

  /// bos_token_id, eos_token_id (one, or a list) into `architecture`, whose vocabulary bounds them.
  void read_special_tokens(Architecture& architecture) const;

  /// rope_theta with rope_scaling or rope_parameters: base and scaling of a rotary embedding of `dims` elements.
  /// `max_positions` stands in for a missing original_max_position_embeddings.
  RotarySpec rotary(std::size_t dims, std::size_t max_positions, double default_base = 10000.0) const;

  /// One object of rope settings (rope_type and what goes with it).
  RotaryScaling rotary_scaling(const JsonFields& fields, std::size_t dims, std::size_t max_positions) const;

  /// Keys that nobody read and that are not known to leave the network's values alone.
  std::vector<std::string> not_understood() const;
};

}  // namespace nibble::model

#pragma once

#include <span>
#include <string_view>

#include "model/architecture/architecture.h"

namespace nibble::model {

class FamilyConfig;

/// A family of models: the `model_type` of its config.json, and what reads the rest of it.
struct Family {
  std::string_view model_type;
  /// Fills everything but vocabulary-independent special tokens. Throws FormatError: values out of range, settings that
  /// are not computed, by name.
  Architecture (*parse)(const FamilyConfig& config);
};

/// The families that are read: one file of families/ and one line of the list each.
std::span<const Family> families();

/// Reads config.json. A key that is neither understood nor known to leave the network's values alone is refused by
/// name: it may change the network. Throws FormatError: that, an unknown model_type (with the nearest), values out of
/// range, with expected and got. `what` names the source in messages ("config.json of '…'").
Architecture parse_architecture(std::string_view config_json, std::string_view what);
/// The same with a list of families of the caller's: how a test tries a family of its own.
Architecture parse_architecture(std::string_view config_json, std::string_view what, std::span<const Family> known);

/// Adds a family for this process, so that every command reads it: for tests and for programs that bring their own.
/// Throws InvalidArgument where its model_type is taken. Not thread-safe: call it before anything else.
void register_family(const Family& family);

}  // namespace nibble::model

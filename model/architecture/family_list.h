#pragma once

#include "model/architecture/architecture.h"

// The parsers of families/, for the list in families.cc.
namespace nibble::model {

class FamilyConfig;

Architecture parse_gpt2(const FamilyConfig& config);
Architecture parse_llama(const FamilyConfig& config);

}  // namespace nibble::model

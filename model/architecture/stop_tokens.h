#pragma once

#include "core/text/json_fields.h"
#include "model/architecture/architecture.h"

namespace nibble::model {

/// Adds what 'eos_token_id' of config.json or generation_config.json names, one id or several, to the tokens that end a
/// text. Throws FormatError: ids that the vocabulary lacks, or more than 64.
void add_stop_tokens(const JsonFields& fields, Architecture& architecture);

}  // namespace nibble::model

#pragma once

#include "core/text/json_fields.h"
#include "model/tokenizer/spec.h"

namespace nibble::model {

/// The parts of tokenizer.json around the model: each appends its steps to the spec, and throws FormatError naming a
/// part that is not supported.
void read_normalizer(TokenizerSpec& spec, const JsonFields& part);
void read_pre_tokenizer(TokenizerSpec& spec, const JsonFields& part);
void read_decoder(TokenizerSpec& spec, const JsonFields& part);
/// Sets added_prefix if special tokens are put before the text. The vocabulary must be complete.
void read_post_processor(TokenizerSpec& spec, const JsonFields& part);

}  // namespace nibble::model

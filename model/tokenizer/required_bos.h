#pragma once

#include "core/token_id.h"
#include "model/tokenizer/tokenizer.h"

namespace nibble::model {

/// The BOS that windows of text are to begin with (`--bos`): what `tokenizer` puts before texts. Throws InvalidArgument
/// where that is nothing, or several tokens, or `tokenizer` is null for want of one beside the model.
TokenId required_bos(const Tokenizer* tokenizer);

}  // namespace nibble::model

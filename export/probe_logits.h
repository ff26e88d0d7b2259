#pragma once

#include <cstddef>
#include <vector>

#include "model/transformer/transformer.h"

namespace nibble::exporting {

/// Logits (rows, vocabulary) of the last `rows` of `tokens`, one text without a cache. Throws as Model::forward().
std::vector<float> logits_of(const model::Model& transformer, const std::vector<TokenId>& tokens, std::size_t rows);

}  // namespace nibble::exporting

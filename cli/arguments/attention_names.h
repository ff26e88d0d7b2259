#pragma once

#include <array>

#include "core/text/choice.h"
#include "model/transformer/transformer.h"

namespace nibble::cli {

/// What --attention calls them.
inline constexpr std::array<Choice<model::Attention>, 2> kAttentions = {
    {{"fused", model::Attention::kFused}, {"decomposed", model::Attention::kDecomposed}}};

}  // namespace nibble::cli

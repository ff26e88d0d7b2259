#pragma once

#include <cstddef>

namespace nibble::quant {

/// Up to so many tokens go through the matrix-vector kernels, in groups of 4 and single ones.
constexpr std::size_t kMostMatvecTokens = 8, kTokenGroup = 4;

/// action(first token, tokens) for each group.
template <class Action>
void for_token_groups(std::size_t tokens, const Action& action) {
  for (std::size_t token = 0; token < tokens;) {
    const std::size_t left = tokens - token, group = left >= kTokenGroup ? kTokenGroup : 1;
    action(token, group);
    token += group;
  }
}

}  // namespace nibble::quant

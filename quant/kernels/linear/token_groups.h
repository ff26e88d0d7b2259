#pragma once

#include <algorithm>
#include <cstddef>

#include "core/checked_math.h"
#include "core/machine/thread_pool.h"

namespace nibble::quant {

/// Up to so many tokens go through the matrix-vector kernels, in groups of 4 and single ones: packed weights exactly,
/// float ones, and packed ones in int8 mode, where every token of these few reads the weights anew.
constexpr std::size_t kMostExactTokens = 32, kMostMatvecTokens = 8, kMostInt8MatvecTokens = 2, kTokenGroup = 4;

/// action(first token, tokens) for each group.
template <class Action>
void for_token_groups(std::size_t tokens, const Action& action) {
  for (std::size_t token = 0; token < tokens;) {
    const std::size_t left = tokens - token, group = left >= kTokenGroup ? kTokenGroup : 1;
    action(token, group);
    token += group;
  }
}

/// How many of `count` pieces of a weight, `bytes` each, a thread takes at a time: runs long enough to get memory
/// streaming and short enough to stay in a second-level cache for the next group of tokens, as many for each thread.
inline std::size_t run_length(std::size_t count, std::size_t bytes) {
  constexpr std::size_t kLeastBytes = 128u << 10, kMostBytes = 512u << 10, kRunsPerThread = 4;
  const std::size_t share = count * bytes / thread_count();
  const std::size_t run = std::clamp(share / kRunsPerThread, kLeastBytes, kMostBytes);
  const std::size_t runs = std::max<std::size_t>(1, share / run) * thread_count();
  return std::max<std::size_t>(1, divide_up(count, runs));
}

}  // namespace nibble::quant

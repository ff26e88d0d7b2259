#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "export/coreml/layers.h"

namespace nibble::coreml {

/// Attention over new tokens and those before them: what the two forms do differently.
class AttentionForm {
 public:
  virtual ~AttentionForm() = default;
  /// Token ids (1, tokens).
  virtual const Var& ids() const = 0;
  /// Positions of the new tokens (tokens), int32.
  virtual const Var& positions() const = 0;
  /// q (1, heads, tokens, head_dim), k and v (1, kv_heads, tokens, head_dim), all after norms and rotary embedding:
  /// keeps k and v and gives what the tokens attend to, (1, heads, tokens, head_dim).
  virtual Var attend(const model::AttentionSpec& spec, std::size_t block, const Var& q, const Var& k, const Var& v) = 0;
  /// What is to be described: inputs and states; no outputs.
  virtual Interface interface() const = 0;
};

/// The GPU's: inputs inputIds (1, T) and causalMask (1, 1, T, S), S = positions before the call + T, 0 or -inf; states
/// keyCache and valueCache (blocks, 1, kv_heads, context, head_dim). New rows go to slots S - T … S - 1 of their block.
std::unique_ptr<AttentionForm> make_gpu_attention(Layers& layers, const model::Architecture& architecture,
                                                  std::size_t context);

/// The Neural Engine's: inputs inputIds (1, tokens) and cachePosition (1), the position of the first; states for each
/// block b, keyCacheB (1, kv_heads, head_dim, past) and valueCacheB (1, kv_heads, past, head_dim), the `past` positions
/// before the call, the newest last. Every call slides them by its tokens. Slots before position 0 are masked, so a
/// text that is no multiple of `tokens` begins with padding at negative positions.
std::unique_ptr<AttentionForm> make_ane_attention(Layers& layers, const model::Architecture& architecture,
                                                  std::size_t tokens, std::size_t past);

/// What masked scores get added: small enough for a weight of 0, and twice it is no more than -inf in float16.
inline constexpr double kMasked = -40000.0;

}  // namespace nibble::coreml

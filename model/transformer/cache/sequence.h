#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "model/transformer/cache/cache_options.h"
#include "model/transformer/kv_cache.h"
#include "model/transformer/transformer.h"

namespace nibble::model {

/// A text that grows: its tokens so far, in whatever form its kind of cache keeps them, and the way to append more.
/// Any number of sequences may live beside each other over one model and be extended in turn; one that waits costs its
/// memory and nothing else. With f32 caches all kinds give the same logits up to rounding, as long as a window has not
/// slid, however the tokens are cut into calls. Where rotary frequencies change once, beyond the original context
/// (longrope), `io` and `state` run the whole text again in the call that gets there, as transformers does. (Where they
/// change with every token beyond it, dynamic, and in a `window`, a cached key keeps those of the call that made it:
/// there, cuts show.) One call per model at a time.
template <class T>
class Sequence {
 public:
  virtual ~Sequence() = default;
  /// Appends `tokens` and hands the logits of the last `logit_rows` of them to `sink`, rows counted within `tokens`.
  /// Throws InvalidArgument and appends nothing: more tokens than fit behind length(), ids outside the vocabulary,
  /// logit_rows > tokens.size(). Throws NumericalError when logits hold NaN: reset() it then.
  void extend(std::span<const TokenId> tokens, std::size_t logit_rows, const LogitSink<T>& sink,
              const ForwardOptions& options = {});
  virtual void reset() = 0;
  virtual std::size_t length() const = 0;    ///< tokens so far
  virtual std::size_t capacity() const = 0;  ///< tokens that it can take; the largest number there is where it slides
  virtual std::uint64_t bytes() const = 0;   ///< as cache_bytes()

 private:
  virtual void append(std::span<const TokenId> tokens, std::size_t logit_rows, const LogitSink<T>& sink,
                      const ForwardOptions& options) = 0;
};

/// An empty sequence over `model`, which must outlive it. f16 and int8 are there for float only.
/// Throws InvalidArgument as cache_bytes().
template <class T>
std::unique_ptr<Sequence<T>> make_sequence(const Transformer<T>& model, const CacheOptions& options);
/// The same over a cache of the caller's, updated in place (`state`).
template <class T>
std::unique_ptr<Sequence<T>> make_sequence(const Transformer<T>& model, std::unique_ptr<KvCache<T>> cache);

}  // namespace nibble::model

#include "model/transformer/cache/sequence.h"

#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "core/error.h"
#include "model/transformer/cache/cache_layout.h"
#include "model/transformer/cache/state_cache.h"
#include "model/transformer/cache/window_cache.h"
#include "model/transformer/layers/layout.h"
#include "model/transformer/scalar.h"

namespace nibble::model {
namespace {

std::vector<std::size_t> rows_from(std::size_t first, std::size_t count) {
  std::vector<std::size_t> rows(count);
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

/// Hands on what `sink` is to see, when row r of its tokens is row r + offset of the call.
template <class T>
LogitSink<T> shifted(const LogitSink<T>& sink, std::ptrdiff_t offset) {
  return [&sink, offset](std::span<const std::size_t> rows, MatrixView<const T> logits) {
    std::vector<std::size_t> own(rows.begin(), rows.end());
    for (std::size_t& row : own) row = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(row) - offset);
    sink(own, logits);
  };
}

template <class T>
class StateSequence final : public Sequence<T> {
 public:
  StateSequence(const Transformer<T>& model, std::unique_ptr<KvCache<T>> cache)
      : model_(model), cache_(std::move(cache)) {}
  void reset() override { cache_->reset(); }
  std::size_t length() const override { return cache_->length(); }
  std::size_t capacity() const override { return cache_->length() + cache_->room(); }
  std::uint64_t bytes() const override { return cache_->bytes(); }

 private:
  void append(std::span<const TokenId> tokens, std::size_t logit_rows, const LogitSink<T>& sink,
              const ForwardOptions& options) override {
    model_.extend(tokens, *cache_, rows_from(tokens.size() - logit_rows, logit_rows), sink, options);
    cache_->advance(tokens.size());
  }
  const Transformer<T>& model_;
  std::unique_ptr<KvCache<T>> cache_;
};

/// What a call is given stays as it is; what it returns is a copy with the new rows behind.
template <class T, class Stored>
class IoSequence final : public Sequence<T> {
 public:
  IoSequence(const Transformer<T>& model, std::size_t capacity)
      : model_(model), input_(model.architecture(), capacity), output_(input_) {}
  void reset() override { input_.reset(); }
  std::size_t length() const override { return input_.length(); }
  std::size_t capacity() const override { return input_.length() + input_.room(); }
  std::uint64_t bytes() const override { return input_.bytes() + output_.bytes(); }

 private:
  void append(std::span<const TokenId> tokens, std::size_t logit_rows, const LogitSink<T>& sink,
              const ForwardOptions& options) override {
    output_.copy_from(input_);
    model_.extend(tokens, output_, rows_from(tokens.size() - logit_rows, logit_rows), sink, options);
    output_.advance(tokens.size());
    std::swap(input_, output_);
  }
  const Transformer<T>& model_;
  StateCache<T, Stored> input_, output_;
};

std::vector<const RotarySpec*> rotaries_with_two_sets(const Architecture& architecture) {
  std::vector<const RotarySpec*> found;
  for (const BlockSpec& block : architecture.blocks) {
    const auto& rotary = block.attention.rotary;
    if (rotary && rotary->scaling.has_two_sets()) found.push_back(&*rotary);
  }
  return found;
}

/// Over a sequence with a cache: a call that takes the text beyond the original context runs all of it again, since
/// keys that were turned by the short factors fit no query that is turned by the long ones.
template <class T>
class RestartingSequence final : public Sequence<T> {
 public:
  RestartingSequence(const Transformer<T>& model, std::unique_ptr<Sequence<T>> inner)
      : model_(model), inner_(std::move(inner)), rotaries_(rotaries_with_two_sets(model.architecture())) {}
  void reset() override {
    inner_->reset();
    tokens_.clear();
  }
  std::size_t length() const override { return inner_->length(); }
  std::size_t capacity() const override { return inner_->capacity(); }
  std::uint64_t bytes() const override { return inner_->bytes(); }

 private:
  void append(std::span<const TokenId> tokens, std::size_t logit_rows, const LogitSink<T>& sink,
              const ForwardOptions& options) override {
    check_tokens(model_.architecture(), tokens);  // before anything is dropped
    const std::size_t before = inner_->length(), after = before + tokens.size();
    tokens_.resize(before);  // without those of a call that failed
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    const bool again = before > 0 && std::ranges::any_of(rotaries_, [&](const RotarySpec* rotary) {
                         return !same_frequencies(*rotary, before, after);
                       });
    if (!again) return inner_->extend(tokens, logit_rows, sink, options);
    inner_->reset();
    inner_->extend(tokens_, logit_rows, shifted(sink, static_cast<std::ptrdiff_t>(before)), options);
  }
  const Transformer<T>& model_;
  std::unique_ptr<Sequence<T>> inner_;
  std::vector<const RotarySpec*> rotaries_;
  std::vector<TokenId> tokens_;
};

/// The tokens alone, and the whole context behind them filled up: causal attention never looks at the padding.
template <class T>
class UncachedSequence final : public Sequence<T> {
 public:
  UncachedSequence(const Transformer<T>& model, std::size_t capacity) : model_(model), tokens_(capacity) {}
  void reset() override { length_ = 0; }
  std::size_t length() const override { return length_; }
  std::size_t capacity() const override { return tokens_.size(); }
  std::uint64_t bytes() const override { return 0; }

 private:
  void append(std::span<const TokenId> tokens, std::size_t logit_rows, const LogitSink<T>& sink,
              const ForwardOptions& options) override {
    check_tokens(model_.architecture(), tokens);
    std::fill(std::copy(tokens.begin(), tokens.end(), tokens_.begin() + static_cast<std::ptrdiff_t>(length_)),
              tokens_.end(), TokenId{0});
    const std::size_t end = length_ + tokens.size();
    const std::size_t rows = frequencies_follow_length(model_.architecture()) ? end : tokens_.size();
    const std::size_t starts[] = {0, rows};
    model_.forward({std::span(tokens_).first(rows), starts}, rows_from(end - logit_rows, logit_rows),
                   shifted(sink, static_cast<std::ptrdiff_t>(length_)), options);
    length_ = end;
  }
  const Transformer<T>& model_;
  std::vector<TokenId> tokens_;
  std::size_t length_ = 0;
};

/// Every call runs the whole newest chunk, tokens seen before and padding included.
template <class T>
class WindowSequence final : public Sequence<T> {
 public:
  WindowSequence(const Transformer<T>& model, std::unique_ptr<KvCache<T>> cache)
      : model_(model), cache_(std::move(cache)), chunk_(cache_->room()) {
    capacity_ = model.architecture().position_limit();
  }
  void reset() override {
    cache_->reset();
    pending_ = 0;
  }
  std::size_t length() const override { return cache_->length() + pending_; }
  std::size_t capacity() const override { return capacity_; }
  std::uint64_t bytes() const override { return cache_->bytes(); }

 private:
  void append(std::span<const TokenId> tokens, std::size_t logit_rows, const LogitSink<T>& sink,
              const ForwardOptions& options) override {
    check_tokens(model_.architecture(), tokens);  // all of them, before the first chunk goes in
    const std::size_t first_scored = tokens.size() - logit_rows;
    for (std::size_t done = 0; done < tokens.size();) {
      const std::size_t count = std::min(chunk_.size() - pending_, tokens.size() - done), filled = pending_ + count;
      const auto newest = std::copy_n(tokens.begin() + static_cast<std::ptrdiff_t>(done), count,
                                      chunk_.begin() + static_cast<std::ptrdiff_t>(pending_));
      std::fill(newest, chunk_.end(), TokenId{0});
      const std::size_t scored = std::min(count, done + count - std::min(done + count, first_scored));
      // Learned positions may end within the chunk; padding must not count where frequencies follow the length.
      const std::size_t room = std::min(chunk_.size(), capacity_ - cache_->length());
      const std::size_t rows = frequencies_follow_length(model_.architecture()) ? filled : room;
      model_.extend(std::span(chunk_).first(rows), *cache_, rows_from(filled - scored, scored),
                    shifted(sink, static_cast<std::ptrdiff_t>(pending_) - static_cast<std::ptrdiff_t>(done)), options);
      done += count;
      pending_ = filled % chunk_.size();
      if (pending_ == 0) cache_->advance(chunk_.size());
    }
  }
  const Transformer<T>& model_;
  std::unique_ptr<KvCache<T>> cache_;
  std::vector<TokenId> chunk_;
  std::size_t pending_ = 0;  // tokens of the newest chunk
  std::size_t capacity_;
};

template <class T, class Stored>
std::unique_ptr<Sequence<T>> make_stored(const Transformer<T>& model, const CacheOptions& options,
                                         std::size_t capacity) {
  const Architecture& architecture = model.architecture();
  const auto restarting = [&](std::unique_ptr<Sequence<T>> sequence) {
    if (rotaries_with_two_sets(architecture).empty()) return sequence;
    return std::unique_ptr<Sequence<T>>(std::make_unique<RestartingSequence<T>>(model, std::move(sequence)));
  };
  switch (options.kind) {
    case CacheKind::kNone:
      return std::make_unique<UncachedSequence<T>>(model, capacity);
    case CacheKind::kIo:
      return restarting(std::make_unique<IoSequence<T, Stored>>(model, capacity));
    case CacheKind::kState:
      return restarting(make_sequence<T>(model, std::make_unique<StateCache<T, Stored>>(architecture, capacity)));
    case CacheKind::kWindow:
      break;
  }
  return std::make_unique<WindowSequence<T>>(
      model, std::make_unique<WindowCache<T, Stored>>(architecture, options.chunk, options.context));
}

}  // namespace

template <class T>
void Sequence<T>::extend(std::span<const TokenId> tokens, std::size_t logit_rows, const LogitSink<T>& sink,
                         const ForwardOptions& options) {
  NIBBLE_REQUIRE(tokens.size() <= capacity() - length(), InvalidArgument,
                 "sequence: {} tokens do not fit behind {}: its cache holds {} positions; make it larger, or use one "
                 "that slides (window, with rotary positions)",
                 tokens.size(), length(), capacity());
  NIBBLE_REQUIRE(logit_rows <= tokens.size(), InvalidArgument, "sequence: logits of {} rows asked for, of {} tokens",
                 logit_rows, tokens.size());
  if (!tokens.empty()) append(tokens, logit_rows, sink, options);
}

template <class T>
std::unique_ptr<Sequence<T>> make_sequence(const Transformer<T>& model, const CacheOptions& options) {
  static_cast<void>(cache_bytes(model.architecture(), options));  // refuses what does not fit together
  const std::size_t capacity = cache_capacity(model.architecture(), options);
  if constexpr (std::is_same_v<T, float>) {
    if (options.type == CacheType::kF16) return make_stored<float, Float16Bits>(model, options, capacity);
    if (options.type == CacheType::kInt8) return make_stored<float, std::int8_t>(model, options, capacity);
  }
  NIBBLE_REQUIRE(options.type == CacheType::kF32, InvalidArgument,
                 "key-value cache: f16 and int8 are there for the float model only");
  return make_stored<T, T>(model, options, capacity);
}

template <class T>
std::unique_ptr<Sequence<T>> make_sequence(const Transformer<T>& model, std::unique_ptr<KvCache<T>> cache) {
  return std::make_unique<StateSequence<T>>(model, std::move(cache));
}

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define NIBBLE_INSTANTIATE(T)                                                                         \
  template class Sequence<T>;                                                                         \
  template std::unique_ptr<Sequence<T>> make_sequence<T>(const Transformer<T>&, const CacheOptions&); \
  template std::unique_ptr<Sequence<T>> make_sequence<T>(const Transformer<T>&, std::unique_ptr<KvCache<T>>);
// NOLINTEND(bugprone-macro-parentheses)
NIBBLE_SCALARS(NIBBLE_INSTANTIATE)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model

#include "model/transformer/decoder.h"

#include <algorithm>

#include "core/error.h"
#include "model/transformer/scalar.h"

namespace nibble::model {

template <class T>
Decoder<T>::Decoder(DecoderParts<T> parts) : parts_(std::move(parts)) {
  std::vector<Rotary<T>>& known = scratch_.rotaries;
  for (const BlockSpec& block : parts_.architecture.blocks) {
    rotary_of_block_.emplace_back();
    if (!block.attention.rotary) continue;
    const RotarySpec& spec = *block.attention.rotary;
    const auto found = std::find_if(known.begin(), known.end(), [&](const auto& r) { return r.spec() == spec; });
    rotary_of_block_.back() = static_cast<std::size_t>(found - known.begin());
    if (found == known.end()) known.emplace_back(spec);
  }
}

template <class T>
Rotary<T>* Decoder<T>::rotary(std::size_t block) const {
  const auto index = rotary_of_block_[block];
  return index ? &scratch_.rotaries[*index] : nullptr;
}

namespace {

template <class T>
void check_residual(const Architecture& architecture, const Layout& layout, MatrixView<const T> x, const char* name) {
  NIBBLE_REQUIRE(x.rows() == layout.rows() && x.cols() == architecture.hidden, InvalidArgument,
                 "transformer: expected {} ({}, {}), got ({}, {})", name, layout.rows(), architecture.hidden, x.rows(),
                 x.cols());
}

void check_logit_rows(std::size_t tokens, std::span<const std::size_t> rows) {
  NIBBLE_REQUIRE(std::is_sorted(rows.begin(), rows.end()) && (rows.empty() || rows.back() < tokens), InvalidArgument,
                 "transformer: logit rows must ascend and be below the number of tokens, {}", tokens);
}

template <class T>
void check_head_rows(const Architecture& architecture, std::span<const std::size_t> rows, MatrixView<const T> x) {
  NIBBLE_REQUIRE(x.cols() == architecture.hidden, InvalidArgument, "transformer: expected x (tokens, {}), got ({}, {})",
                 architecture.hidden, x.rows(), x.cols());
  check_logit_rows(x.rows(), rows);
}

void check_block(const Architecture& architecture, std::size_t block) {
  NIBBLE_REQUIRE(block < architecture.blocks.size(), InvalidArgument, "transformer: block {} of {}", block,
                 architecture.blocks.size());
}

}  // namespace

template <class T>
bool Decoder<T>::run_blocks(const Layout& layout, MatrixView<T> x, const ForwardOptions& options, KvCache<T>* cache,
                            const Hooks<T>* hooks) const {
  for (std::size_t i = 0; i < parts_.blocks.size(); ++i)
    if (!parts_.blocks[i].forward(layout, x, options.attention, rotary(i), cache, i, scratch_.block, hooks))
      return false;
  return true;
}

template <class T>
void Decoder<T>::forward(const Batch& batch, std::span<const std::size_t> logit_rows, const LogitSink<T>& sink,
                         const ForwardOptions& options, const Hooks<T>* hooks) const {
  const Layout layout = layout_of(architecture(), batch);
  check_logit_rows(layout.rows(), logit_rows);
  if (layout.rows() == 0) return;
  const auto x = scratch_.residual.view(layout.rows(), architecture().hidden);
  parts_.embedding.forward(batch.tokens, layout.positions, x);
  if (!run_blocks(layout, x, options, nullptr, hooks)) return;
  parts_.head.forward(x, logit_rows, sink, scratch_.head, hooks);
}

template <class T>
void Decoder<T>::extend(std::span<const TokenId> tokens, KvCache<T>& cache, std::span<const std::size_t> logit_rows,
                        const LogitSink<T>& sink, const ForwardOptions& options) const {
  NIBBLE_REQUIRE(tokens.size() <= cache.room(), InvalidArgument,
                 "transformer: {} tokens do not fit behind position {} of a cache that has room for {} more",
                 tokens.size(), cache.length(), cache.room());
  const Layout layout = layout_behind(architecture(), tokens, cache.length());
  check_logit_rows(layout.rows(), logit_rows);
  if (layout.rows() == 0) return;
  const auto x = scratch_.residual.view(layout.rows(), architecture().hidden);
  parts_.embedding.forward(tokens, layout.positions, x);
  run_blocks(layout, x, options, &cache, nullptr);
  parts_.head.forward(x, logit_rows, sink, scratch_.head, nullptr);
}

template <class T>
void Decoder<T>::embed(const Batch& batch, MatrixView<T> x) const {
  const Layout layout = layout_of(architecture(), batch);
  check_residual<T>(architecture(), layout, x, "x");
  parts_.embedding.forward(batch.tokens, layout.positions, x);
}

template <class T>
void Decoder<T>::forward_block(std::size_t block, const Batch& batch, MatrixView<T> x, const ForwardOptions& options,
                               const Hooks<T>* hooks) const {
  const Layout layout = layout_of(architecture(), batch);
  check_block(architecture(), block);
  check_residual<T>(architecture(), layout, x, "x");
  parts_.blocks[block].forward(layout, x, options.attention, rotary(block), nullptr, block, scratch_.block, hooks);
}

template <class T>
void Decoder<T>::backward_block(std::size_t block, const Batch& batch, MatrixView<const T> x_in, MatrixView<T> dx,
                                const Hooks<T>* hooks) const {
  const Layout layout = layout_of(architecture(), batch);
  check_block(architecture(), block);
  check_residual<T>(architecture(), layout, x_in, "x_in");
  check_residual<T>(architecture(), layout, dx, "dx");
  parts_.blocks[block].backward(layout, x_in, dx, rotary(block), scratch_.block, hooks);
}

template <class T>
void Decoder<T>::backward_head(MatrixView<const T> x, std::span<const std::int64_t> targets,
                               std::span<const T> row_weights, std::span<T> losses, MatrixView<T> dx,
                               const Hooks<T>* hooks) const {
  const std::size_t rows = x.rows();
  NIBBLE_REQUIRE(x.cols() == architecture().hidden && targets.size() == rows && row_weights.size() == rows &&
                     losses.size() == rows && dx.rows() == rows && dx.cols() == x.cols(),
                 InvalidArgument,
                 "transformer: backward_head expects targets, weights, losses and dx for each of the {} rows of x, got "
                 "{}, {}, {} and {}",
                 rows, targets.size(), row_weights.size(), losses.size(), dx.rows());
  for (std::size_t r = 0; r < rows; ++r)
    NIBBLE_REQUIRE(targets[r] < static_cast<std::int64_t>(architecture().vocabulary), InvalidArgument,
                   "transformer: target [{}] is {}, but the vocabulary has {} ids", r, targets[r],
                   architecture().vocabulary);
  parts_.head.backward(x, targets, row_weights, losses, dx, scratch_.head, hooks);
}

template <class T>
void Decoder<T>::forward_head(MatrixView<const T> x, std::span<const std::size_t> logit_rows,
                              const LogitSink<T>& sink) const {
  check_head_rows<T>(architecture(), logit_rows, x);
  parts_.head.forward(x, logit_rows, sink, scratch_.head, nullptr);
}

template <class T>
void Decoder<T>::backward_logits(MatrixView<const T> x, std::span<const std::size_t> logit_rows,
                                 const LogitGradient<T>& gradient, MatrixView<T> dx, const Hooks<T>* hooks) const {
  check_head_rows<T>(architecture(), logit_rows, x);
  NIBBLE_REQUIRE(dx.rows() == x.rows() && dx.cols() == x.cols(), InvalidArgument,
                 "transformer: expected dx ({}, {}), got ({}, {})", x.rows(), x.cols(), dx.rows(), dx.cols());
  parts_.head.backward(x, logit_rows, gradient, dx, scratch_.head, hooks);
}

template <class T>
void Decoder<T>::release_block(std::size_t block) const {
  NIBBLE_REQUIRE(block <= architecture().blocks.size(), InvalidArgument, "transformer: block {} of {} and the head",
                 block, architecture().blocks.size());
  if (block < architecture().blocks.size()) return parts_.blocks[block].release();
  parts_.head.linear.op->release();
  parts_.embedding.release();
}

#define NIBBLE_INSTANTIATE(T) template class Decoder<T>;
NIBBLE_SCALARS(NIBBLE_INSTANTIATE)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model

#include "model/transformer/layers/head.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "model/transformer/layers/softcap.h"
#include "model/transformer/scalar.h"

namespace nibble::model {
namespace {

constexpr std::size_t kChunkBytes = 32u << 20;

template <class T>
void gather_head_rows(MatrixView<const T> x, std::span<const std::size_t> rows, MatrixView<T> y) {
  parallel_for_tiles(rows.size(), 64, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) std::copy_n(x.row(rows[i]).data(), x.cols(), y.row(i).data());
  });
}

// A NaN differs from itself; counting without an early exit lets the loop use vectors.
template <class T>
bool has_nan(std::span<const T> row) {
  int found = 0;
  for (const T& value : row) found |= static_cast<int>(value != value);
  return found != 0;
}

template <class T>
void require_no_nan(MatrixView<const T> logits, std::span<const std::size_t> rows) {
  for_row_pieces(logits.rows(), logits.cols(), [&](std::size_t r, std::size_t first, std::size_t count) {
    NIBBLE_REQUIRE(
        !has_nan<T>(logits.row(r).subspan(first, count)), NumericalError,
        "transformer: logits of row {} hold NaN; a weight or an activation is not finite (keys and values beyond "
        "65504 in a cache of f16, say)",
        rows[r]);
  });
}

}  // namespace

template <class T>
std::size_t Head<T>::rows_per_chunk() const {
  return std::max<std::size_t>(1, kChunkBytes / (linear.op->out_features() * sizeof(T)));
}

template <class T>
void Head<T>::finish(MatrixView<T> logits) const {
  if (scale == 1.0 && softcap <= 0.0) return;
  const auto factor = static_cast<RealOf<T>>(scale);
  for_row_pieces(logits.rows(), logits.cols(), [&](std::size_t r, std::size_t first, std::size_t count) {
    T* piece = logits.row(r).data() + first;
    for (std::size_t i = 0; i < count; ++i) piece[i] *= factor;
    if (softcap > 0.0) softcap_row(piece, count, softcap);
  });
}

template <class T>
void Head<T>::keep_slopes(MatrixView<const T> logits, Scratch& scratch) const {
  if (softcap <= 0.0) return;
  const auto slopes = scratch.slopes.view(logits.rows(), logits.cols());
  for_row_pieces(logits.rows(), logits.cols(), [&](std::size_t r, std::size_t first, std::size_t count) {
    softcap_slope_row(logits.row(r).data() + first, slopes.row(r).data() + first, count, softcap);
  });
}

template <class T>
void Head<T>::finish_backward(MatrixView<T> gradient, Scratch& scratch) const {
  if (scale == 1.0 && softcap <= 0.0) return;
  const auto factor = static_cast<RealOf<T>>(scale);
  const auto slopes = softcap > 0.0 ? scratch.slopes.view(gradient.rows(), gradient.cols()) : MatrixView<T>();
  for_row_pieces(gradient.rows(), gradient.cols(), [&](std::size_t r, std::size_t first, std::size_t count) {
    T* piece = gradient.row(r).data() + first;
    for (std::size_t i = 0; i < count; ++i) piece[i] *= factor;
    if (slopes.empty()) return;
    const T* slope = slopes.row(r).data() + first;
    for (std::size_t i = 0; i < count; ++i) piece[i] *= slope[i];
  });
}

template <class T>
MatrixView<T> Head<T>::chunk_logits(MatrixView<const T> x, std::span<const std::size_t> rows, Scratch& scratch,
                                    const Hooks<T>* hooks) const {
  const auto gathered = scratch.gathered.view(rows.size(), x.cols());
  const auto input = chunk_input(rows.size(), x.cols(), scratch);
  const auto logits = scratch.logits.view(rows.size(), linear.op->out_features());
  gather_head_rows<T>(x, rows, gathered);
  if (norm) norm->forward(gathered, input);
  if (!linear.forward(input, logits, hooks, {rows})) return {};
  finish(logits);
  require_no_nan<T>(logits, rows);
  return logits;
}

template <class T>
void Head<T>::forward(MatrixView<const T> x, std::span<const std::size_t> rows, const LogitSink<T>& sink,
                      Scratch& scratch, const Hooks<T>* hooks) const {
  const std::size_t step = rows_per_chunk();
  for (std::size_t begin = 0; begin < rows.size(); begin += step) {
    const auto chunk = rows.subspan(begin, std::min(step, rows.size() - begin));
    const auto logits = chunk_logits(x, chunk, scratch, hooks);
    if (!logits.empty()) sink(chunk, logits);  // else the pass ends here
  }
}

template <class T>
void Head<T>::backward(MatrixView<const T> x, std::span<const std::size_t> rows, const LogitGradient<T>& gradient,
                       MatrixView<T> dx, Scratch& scratch, const Hooks<T>* hooks) const {
  for (std::size_t r = 0; r < x.rows(); ++r) std::fill(dx.row(r).begin(), dx.row(r).end(), T(0));
  const std::size_t step = rows_per_chunk();
  for (std::size_t begin = 0; begin < rows.size(); begin += step) {
    const auto chunk = rows.subspan(begin, std::min(step, rows.size() - begin));
    const auto logits = chunk_logits(x, chunk, scratch, nullptr);
    keep_slopes(logits, scratch);
    gradient(chunk, logits);
    finish_backward(logits, scratch);
    auto dinput = scratch.gradient.view(chunk.size(), x.cols());
    linear.backward(chunk_input(chunk.size(), x.cols(), scratch), logits, dinput, hooks, {chunk});
    if (norm) norm->backward(scratch.gathered.view(chunk.size(), x.cols()), dinput);
    for (std::size_t i = 0; i < chunk.size(); ++i) std::copy_n(dinput.row(i).data(), x.cols(), dx.row(chunk[i]).data());
  }
}

template <class T>
void Head<T>::backward(MatrixView<const T> x, std::span<const std::int64_t> targets, std::span<const T> row_weights,
                       std::span<T> losses, MatrixView<T> dx, Scratch& scratch, const Hooks<T>* hooks) const {
  std::vector<std::size_t> scored;
  for (std::size_t r = 0; r < x.rows(); ++r) {
    if (targets[r] >= 0) scored.push_back(r);
    losses[r] = T(0);
  }
  // Logits become weight * (softmax - one at the target).
  const LogitGradient<T> next_token = [&](std::span<const std::size_t> rows, MatrixView<T> logits) {
    parallel_for(rows.size(), [&](std::size_t i) {
      const auto row = logits.row(i);
      const auto target = static_cast<std::size_t>(targets[rows[i]]);
      const T target_logit = row[target], weight = row_weights[rows[i]];
      const WideOf<T> log_sum = softmax_row(row.data(), row.size());
      losses[rows[i]] = static_cast<T>(log_sum - static_cast<WideOf<T>>(target_logit));
      row[target] -= T(1);
      for (T& value : row) value *= weight;
    });
  };
  backward(x, scored, next_token, dx, scratch, hooks);
}

#define NIBBLE_INSTANTIATE(T) template struct Head<T>;
NIBBLE_SCALARS(NIBBLE_INSTANTIATE)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model

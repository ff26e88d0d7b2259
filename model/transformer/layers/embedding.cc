#include "model/transformer/layers/embedding.h"

#include <vector>

#include "core/machine/thread_pool.h"
#include "model/transformer/scalar.h"

namespace nibble::model {

template <class T>
void Embedding<T>::forward(std::span<const TokenId> tokens, std::span<const std::size_t> positions,
                           MatrixView<T> x) const {
  const auto scale = static_cast<RealOf<T>>(scale_);
  parallel_for_tiles(tokens.size(), 64, [&](std::size_t begin, std::size_t end) {
    std::vector<float> token(x.cols()), position(x.cols());
    for (std::size_t r = begin; r < end; ++r) {
      tokens_->decode_rows(tokens[r], tokens[r] + 1, token.data());
      const std::size_t learned = position_offset_ + positions[r];
      if (positions_) positions_->decode_rows(learned, learned + 1, position.data());
      for (std::size_t i = 0; i < x.cols(); ++i)
        x(r, i) = positions_ ? scale * static_cast<T>(token[i]) + static_cast<T>(position[i])
                             : scale * static_cast<T>(token[i]);
    }
  });
  if (norm_) norm_->forward(x, x);
}

template <class T>
void Embedding<T>::release() const {
  tokens_->release();
  if (positions_) positions_->release();
}

#define NIBBLE_INSTANTIATE(T) template class Embedding<T>;
NIBBLE_SCALARS(NIBBLE_INSTANTIATE)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model

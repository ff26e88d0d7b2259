#include "model/transformer/layers/embedding.h"

#include <complex>
#include <vector>

#include "core/thread_pool.h"

namespace nibble::model {

template <class T>
void Embedding<T>::forward(std::span<const TokenId> tokens, std::span<const std::size_t> positions,
                           MatrixView<T> x) const {
  parallel_for_tiles(tokens.size(), 64, [&](std::size_t begin, std::size_t end) {
    std::vector<float> token(x.cols()), position(x.cols());
    for (std::size_t r = begin; r < end; ++r) {
      tokens_->decode_rows(tokens[r], tokens[r] + 1, token.data());
      if (positions_) positions_->decode_rows(positions[r], positions[r] + 1, position.data());
      for (std::size_t i = 0; i < x.cols(); ++i)
        x(r, i) = positions_ ? static_cast<T>(token[i]) + static_cast<T>(position[i]) : static_cast<T>(token[i]);
    }
  });
}

template <class T>
void Embedding<T>::release() const {
  tokens_->release();
  if (positions_) positions_->release();
}

template class Embedding<float>;
template class Embedding<double>;
template class Embedding<std::complex<double>>;

}  // namespace nibble::model

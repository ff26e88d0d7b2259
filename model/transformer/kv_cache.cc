#include "model/transformer/kv_cache.h"

#include <complex>

#include "core/error.h"

namespace nibble::model {

template <class T>
KvCache<T>::KvCache(const Config& config, std::size_t capacity) : capacity_(capacity), width_(config.kv_width()) {
  NIBBLE_REQUIRE(capacity > 0, InvalidArgument, "key-value cache: expected a capacity of at least 1 position");
  for (std::size_t layer = 0; layer < config.layers; ++layer) {
    keys_.emplace_back(capacity, width_);
    values_.emplace_back(capacity, width_);
  }
}

template <class T>
std::size_t KvCache<T>::bytes() const {
  return 2 * keys_.size() * capacity_ * width_ * sizeof(T);
}

template <class T>
MatrixView<T> KvCache<T>::keys(std::size_t layer) {
  return keys_.at(layer).view();
}

template <class T>
MatrixView<T> KvCache<T>::values(std::size_t layer) {
  return values_.at(layer).view();
}

template class KvCache<float>;
template class KvCache<double>;
template class KvCache<std::complex<double>>;

}  // namespace nibble::model

#include "model/transformer/layers/rope.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

#include "core/thread_pool.h"

namespace nibble::model {
template <class T>
Rotary<T>::Rotary(const RotarySpec& spec, std::size_t head_dim)
    : head_dim_(head_dim), frequencies_(rotary_frequencies(spec, 0)) {}

template <class T>
void Rotary<T>::extend_to(std::size_t positions) {
  const std::size_t half = frequencies_.size(), known = table_.size() / head_dim_;
  if (positions <= known) return;
  table_.resize(positions * head_dim_);
  parallel_for_tiles(positions - known, 64, [&](std::size_t begin, std::size_t end) {
    for (std::size_t position = known + begin; position < known + end; ++position) {
      RealOf<T>* cosines = table_.data() + position * head_dim_;
      for (std::size_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(position) * frequencies_[i];
        cosines[i] = static_cast<RealOf<T>>(std::cos(angle));
        cosines[half + i] = static_cast<RealOf<T>>(std::sin(angle));
      }
    }
  });
}

template <class T>
void Rotary<T>::rotate(MatrixView<T> x, std::span<const std::size_t> positions, Direction direction) {
  if (positions.empty()) return;
  extend_to(*std::max_element(positions.begin(), positions.end()) + 1);
  const std::size_t half = frequencies_.size();
  const RealOf<T> sign = direction == Direction::kForward ? RealOf<T>(1) : RealOf<T>(-1);
  parallel_for_tiles(x.rows(), 16, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const RealOf<T>* __restrict cosines = table_.data() + positions[r] * head_dim_;
      const RealOf<T>* __restrict sines = cosines + half;
      for (std::size_t head = 0; head < x.cols(); head += head_dim_) {
        T* __restrict first = &x(r, head);
        T* __restrict second = first + half;
        for (std::size_t i = 0; i < half; ++i) {
          const T a = first[i], b = second[i];
          const RealOf<T> sine = sign * sines[i];
          first[i] = a * cosines[i] - b * sine;
          second[i] = b * cosines[i] + a * sine;
        }
      }
    }
  });
}

template class Rotary<float>;
template class Rotary<double>;
template class Rotary<std::complex<double>>;

}  // namespace nibble::model

#include "model/transformer/layers/rope.h"

#include <algorithm>
#include <cmath>

#include "core/machine/thread_pool.h"
#include "model/transformer/scalar.h"

namespace nibble::model {
namespace {

// The heads of one row; sines have the sign of the direction.
template <class T>
void turn_halves(T* row, std::size_t cols, std::size_t head_dim, std::size_t half, const RealOf<T>* __restrict cosines,
                 const RealOf<T>* __restrict sines, RealOf<T> sign) {
  for (std::size_t head = 0; head < cols; head += head_dim) {
    T* __restrict first = row + head;
    T* __restrict second = first + half;
    for (std::size_t i = 0; i < half; ++i) {
      const T a = first[i], b = second[i];
      const RealOf<T> sine = sign * sines[i];
      first[i] = a * cosines[i] - b * sine;
      second[i] = b * cosines[i] + a * sine;
    }
  }
}

template <class T>
void turn_neighbours(T* row, std::size_t cols, std::size_t head_dim, std::size_t half,
                     const RealOf<T>* __restrict cosines, const RealOf<T>* __restrict sines, RealOf<T> sign) {
  for (std::size_t head = 0; head < cols; head += head_dim) {
    T* __restrict pairs = row + head;
    for (std::size_t i = 0; i < half; ++i) {
      const T a = pairs[2 * i], b = pairs[2 * i + 1];
      const RealOf<T> sine = sign * sines[i];
      pairs[2 * i] = a * cosines[i] - b * sine;
      pairs[2 * i + 1] = b * cosines[i] + a * sine;
    }
  }
}

}  // namespace

template <class T>
void Rotary<T>::make_table(std::size_t begin, std::size_t end, std::size_t length) {
  if (begin_ <= begin && end <= end_ && same_frequencies(spec_, length, length_)) return;
  begin_ = begin, end_ = end, length_ = length;
  const std::vector<double> frequencies = rotary_frequencies(spec_, length);
  const std::size_t half = frequencies.size();
  const double magnitude = spec_.scaling.magnitude;
  table_.resize((end_ - begin_) * 2 * half);
  parallel_for_tiles(end_ - begin_, 64, [&](std::size_t from, std::size_t to) {
    for (std::size_t row = from; row < to; ++row) {
      RealOf<T>* cosines = table_.data() + row * 2 * half;
      for (std::size_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(begin_ + row) * frequencies[i];
        cosines[i] = static_cast<RealOf<T>>(std::cos(angle) * magnitude);
        cosines[half + i] = static_cast<RealOf<T>>(std::sin(angle) * magnitude);
      }
    }
  });
}

template <class T>
void Rotary<T>::rotate_rows(MatrixView<T> x, std::size_t head_dim, std::span<const std::size_t> positions,
                            std::size_t length, Direction direction) {
  if (positions.empty()) return;
  const auto [first, last] = std::minmax_element(positions.begin(), positions.end());
  make_table(*first, *last + 1, length);
  const std::size_t half = spec_.dims / 2;
  const RealOf<T> sign = direction == Direction::kForward ? RealOf<T>(1) : RealOf<T>(-1);
  parallel_for_tiles(x.rows(), 16, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const RealOf<T>* cosines = table_.data() + (positions[r] - begin_) * 2 * half;
      T* row = x.row(r).data();
      spec_.interleaved ? turn_neighbours<T>(row, x.cols(), head_dim, half, cosines, cosines + half, sign)
                        : turn_halves<T>(row, x.cols(), head_dim, half, cosines, cosines + half, sign);
    }
  });
}

template <class T>
void Rotary<T>::rotate(MatrixView<T> x, std::size_t head_dim, const Layout& layout, Direction direction) {
  const std::span<const std::size_t> positions = layout.positions;
  // Sequences one after the other that have the same frequencies turn at once.
  for (std::size_t s = 0; s < layout.sequences();) {
    const std::size_t begin = layout.starts[s], length = layout.reach(s);
    std::size_t next = s + 1;
    while (next < layout.sequences() && same_frequencies(spec_, length, layout.reach(next))) ++next;
    const std::size_t count = layout.starts[next] - begin;
    rotate_rows(x.rows_slice(begin, count), head_dim, positions.subspan(begin, count), length, direction);
    s = next;
  }
}

#define NIBBLE_INSTANTIATE(T) template class Rotary<T>;
NIBBLE_SCALARS(NIBBLE_INSTANTIATE)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model

#include "model/transformer/layers/norm.h"

#include <array>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "model/transformer/scalar.h"

namespace nibble::model {
namespace {

constexpr std::size_t kRowTile = 16;

// Sum over i < n of term(i) in a fixed number of lanes, which the compiler keeps in vector registers.
template <class T, class Term>
WideOf<T> sum_of(std::size_t n, Term term) {
  constexpr std::size_t kLanes = 16;
  std::array<WideOf<T>, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += static_cast<WideOf<T>>(term(i + lane));
  WideOf<T> sum{};
  for (; i < n; ++i) sum += static_cast<WideOf<T>>(term(i));
  for (const WideOf<T>& lane : lanes) sum += lane;
  return sum;
}

}  // namespace

template <class T>
Norm<T>::Norm(Kind kind, std::size_t width, std::vector<T> gain, std::vector<T> bias, double epsilon)
    : kind_(kind), width_(width), gain_(std::move(gain)), bias_(std::move(bias)), epsilon_(epsilon) {
  if (gain_.empty()) gain_.assign(width_, T(1));
  for (const std::vector<T>* values : {&gain_, &bias_})
    NIBBLE_REQUIRE(width_ > 0 && values->size() % width_ == 0, InvalidArgument,
                   "norm: expected a gain and a bias of {} values or a multiple, got {}", width_, values->size());
}

template <class T>
typename Norm<T>::Moments Norm<T>::moments(const T* x) const {
  const std::size_t n = width_;
  const double count = static_cast<double>(n);
  T mean{};
  if (kind_ == Kind::kLayer) mean = static_cast<T>(sum_of<T>(n, [&](std::size_t i) { return x[i]; }) / count);
  const WideOf<T> squares = sum_of<T>(n, [&](std::size_t i) { return (x[i] - mean) * (x[i] - mean); });
  return {mean, static_cast<T>(1.0 / std::sqrt(squares / count + epsilon_))};
}

template <class T>
template <class Body>
void Norm<T>::for_groups(std::size_t rows, std::size_t cols, const Body& body) const {
  parallel_for_tiles(rows, kRowTile, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r)
      for (std::size_t column = 0; column < cols; column += width_)
        body(r, column, gain_.data() + column % gain_.size(),
             bias_.empty() ? nullptr : bias_.data() + column % bias_.size());
  });
}

template <class T>
void Norm<T>::forward(MatrixView<const T> x, MatrixView<T> y) const {
  const std::size_t n = width_;
  for_groups(x.rows(), x.cols(), [&](std::size_t r, std::size_t column, const T* gain, const T* bias) {
    const T* in = x.row(r).data() + column;
    T* out = y.row(r).data() + column;
    const auto [mean, inverse] = moments(in);
    for (std::size_t i = 0; i < n; ++i) out[i] = (in[i] - mean) * inverse * gain[i];
    if (bias != nullptr)
      for (std::size_t i = 0; i < n; ++i) out[i] += bias[i];
  });
}

// With h = (x - mean) / deviation and g = dy * gain:  dx = (g - mean g - h mean(g h)) / deviation; rms lacks mean g.
template <class T>
void Norm<T>::backward_add(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx) const {
  backward_to<true>(x, dy, dx);
}

template <class T>
void Norm<T>::backward(MatrixView<const T> x, MatrixView<T> dy) const {
  backward_to<false>(x, dy, dy);
}

template <class T>
template <bool kAdd>
void Norm<T>::backward_to(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx) const {
  const std::size_t n = width_;
  const double count = static_cast<double>(n);
  for_groups(x.rows(), x.cols(), [&](std::size_t r, std::size_t column, const T* gain, const T*) {
    const T* in = x.row(r).data() + column;
    const T* upstream = dy.row(r).data() + column;
    T* out = dx.row(r).data() + column;
    const Moments m = moments(in);
    const T mean = m.mean, inverse = m.inverse_deviation;
    T mean_g{};
    if (kind_ == Kind::kLayer)
      mean_g = static_cast<T>(sum_of<T>(n, [&](std::size_t i) { return upstream[i] * gain[i]; }) / count);
    const WideOf<T> dot =
        sum_of<T>(n, [&](std::size_t i) { return upstream[i] * gain[i] * ((in[i] - mean) * inverse); });
    const T mean_gh = static_cast<T>(dot / count);
    for (std::size_t i = 0; i < n; ++i) {
      const T part = (upstream[i] * gain[i] - mean_g - (in[i] - mean) * inverse * mean_gh) * inverse;
      out[i] = kAdd ? out[i] + part : part;
    }
  });
}

#define NIBBLE_INSTANTIATE(T) template class Norm<T>;
NIBBLE_SCALARS(NIBBLE_INSTANTIATE)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model

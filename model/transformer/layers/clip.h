#pragma once

#include "core/machine/thread_pool.h"
#include "core/matrix/matrix_view.h"
#include "model/transformer/scalar.h"

namespace nibble::model {

/// x becomes limit or -limit where its real part lies beyond, on all threads.
template <class T>
void clamp_to(MatrixView<T> x, double limit) {
  const auto bound = static_cast<RealOf<T>>(limit);
  parallel_for_tiles(x.rows(), 16, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r)
      for (T& value : x.row(r))
        value = real_part(value) > bound ? T(bound) : real_part(value) < -bound ? T(-bound) : value;
  });
}

/// dx becomes 0 where clamp_to() changed x, given `clamped` as it left it.
template <class T>
void clamp_backward(MatrixView<const T> clamped, double limit, MatrixView<T> dx) {
  const auto bound = static_cast<RealOf<T>>(limit);
  parallel_for_tiles(dx.rows(), 16, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r)
      for (std::size_t i = 0; i < dx.cols(); ++i)
        if (real_part(clamped(r, i)) >= bound || real_part(clamped(r, i)) <= -bound) dx(r, i) = T(0);
  });
}

}  // namespace nibble::model

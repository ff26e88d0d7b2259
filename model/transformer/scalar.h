#pragma once

#include <complex>

namespace nibble::model {

/// The transformer runs in float (the product), double and std::complex<double> (checks of derivatives by the complex
/// step, which needs every formula to be analytic: no abs, no conj, comparisons on real parts only).
template <class T>
struct ScalarTraits {
  using Real = T;
  using Wide = double;  ///< what long sums accumulate in
};
template <class R>
struct ScalarTraits<std::complex<R>> {
  using Real = R;
  using Wide = std::complex<double>;
};
template <class T>
using RealOf = typename ScalarTraits<T>::Real;
template <class T>
using WideOf = typename ScalarTraits<T>::Wide;

template <class T>
RealOf<T> real_part(T x) {
  return std::real(x);
}

}  // namespace nibble::model

/// Calls instantiate(T) for every scalar that the network is compiled in, and instantiate(T, Stored) for those and what
/// caches store of them. Programs have float alone; tests compile the same files in the other scalars
/// (tests/model/transformer/checked_scalars.cc), which takes as long again.
#ifndef NIBBLE_SCALARS
#define NIBBLE_SCALARS(instantiate) instantiate(float)
#define NIBBLE_CACHED_SCALARS(instantiate) \
  instantiate(float, float) instantiate(float, Float16Bits) instantiate(float, std::int8_t)
#endif

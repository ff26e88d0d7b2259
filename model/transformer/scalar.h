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

#include "core/matrix/eigen_gemm.h"

#include <fmt/format.h>

#include <Eigen/Core>
#include <complex>
#include <type_traits>

namespace nibble {
namespace {

template <class T>
using StridedMap = Eigen::Map<Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>,
                              Eigen::Unaligned, Eigen::OuterStride<>>;
template <class T>
using ConstStridedMap =
    Eigen::Map<const Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>,
               Eigen::Unaligned, Eigen::OuterStride<>>;

template <class T>
ConstStridedMap<T> map(MatrixView<const T> m) {
  return {m.data(), static_cast<Eigen::Index>(m.rows()), static_cast<Eigen::Index>(m.cols()),
          Eigen::OuterStride<>(static_cast<Eigen::Index>(m.stride()))};
}

// Eigen's product is compiled for every pair of orders that it is called with. Only double, and float on Arm, is
// multiplied this way where it takes time; the other types, which are here for NIBBLE_FORCE_ISA=scalar and for tests,
// turn copies into one order.
template <class T>
constexpr bool kInPlace = std::is_same_v<T, double> || (kEigenForFloats && std::is_same_v<T, float>);

template <class T>
Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> turned(Transpose transpose, MatrixView<const T> m) {
  if (transpose == Transpose::kYes) return map(m).transpose();
  return map(m);
}

}  // namespace

template <class T>
void eigen_gemm(Transpose ta, Transpose tb, T alpha, MatrixView<const T> a, MatrixView<const T> b, T beta,
                MatrixView<T> c) {
  StridedMap<T> out(c.data(), static_cast<Eigen::Index>(c.rows()), static_cast<Eigen::Index>(c.cols()),
                    Eigen::OuterStride<>(static_cast<Eigen::Index>(c.stride())));
  if (beta == T(0)) {
    out.setZero();
  } else if (beta != T(1)) {
    out *= beta;
  }
  if constexpr (kInPlace<T>) {
    const auto x = map(a), y = map(b);
    if (ta == Transpose::kNo && tb == Transpose::kNo) out.noalias() += alpha * x * y;
    if (ta == Transpose::kNo && tb == Transpose::kYes) out.noalias() += alpha * x * y.transpose();
    if (ta == Transpose::kYes && tb == Transpose::kNo) out.noalias() += alpha * x.transpose() * y;
    if (ta == Transpose::kYes && tb == Transpose::kYes) out.noalias() += alpha * x.transpose() * y.transpose();
  } else {
    out.noalias() += alpha * turned(ta, a) * turned(tb, b);
  }
}

template void eigen_gemm<float>(Transpose, Transpose, float, MatrixView<const float>, MatrixView<const float>, float,
                                MatrixView<float>);
template void eigen_gemm<double>(Transpose, Transpose, double, MatrixView<const double>, MatrixView<const double>,
                                 double, MatrixView<double>);
template void eigen_gemm<std::complex<double>>(Transpose, Transpose, std::complex<double>,
                                               MatrixView<const std::complex<double>>,
                                               MatrixView<const std::complex<double>>, std::complex<double>,
                                               MatrixView<std::complex<double>>);

std::string eigen_version() {
  return fmt::format("Eigen {}.{}.{}", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION);
}

}  // namespace nibble

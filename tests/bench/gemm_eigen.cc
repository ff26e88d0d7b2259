#include "tests/bench/gemm_eigen.h"

#include <Eigen/Core>

namespace nibble::bench {

void eigen_avx512_sgemm(std::size_t m, std::size_t n, std::size_t k, const float* a, const float* b, float* c) {
  using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto index = [](std::size_t i) { return static_cast<Eigen::Index>(i); };
  Eigen::Map<Rows>(c, index(m), index(n)).noalias() =
      Eigen::Map<const Rows>(a, index(m), index(k)) * Eigen::Map<const Rows>(b, index(n), index(k)).transpose();
}

}  // namespace nibble::bench

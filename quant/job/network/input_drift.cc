#include "quant/job/network/input_drift.h"

#include "core/matrix/gemm.h"

namespace nibble::quant {

Matrix<float> measure_input_drift(const WalkedModel& original, const WalkedModel& quantized, std::size_t block,
                                  const std::string& module) {
  Matrix<float> drift;
  std::size_t tokens = 0;
  for (std::size_t batch = 0; batch < quantized.walk.batches(); ++batch) {
    Matrix<float> x = original.walk.input_of(original.model, block, module, batch);
    const Matrix<float> drifted = quantized.walk.input_of(quantized.model, block, module, batch);
    for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] -= drifted.data()[i];
    if (batch == 0) drift = Matrix<float>(x.cols(), x.cols());
    parallel_gemm<float>(Transpose::kYes, Transpose::kNo, 1.0f, x.view(), drifted.view(), batch == 0 ? 0.0f : 1.0f,
                         drift.view());
    tokens += x.rows();
  }
  for (std::size_t i = 0; i < drift.size(); ++i) drift.data()[i] /= static_cast<float>(tokens);
  return drift;
}

void centre_drift(std::span<const double> then, std::span<const double> now, Matrix<float>& drift) {
  for (std::size_t i = 0; i < drift.rows(); ++i)
    for (std::size_t j = 0; j < drift.cols(); ++j)
      drift(i, j) = static_cast<float>(static_cast<double>(drift(i, j)) - (then[i] - now[i]) * now[j]);
}

std::vector<double> output_drift(const WeightSource& w, std::span<const double> then, const WeightSource& target,
                                 std::span<const double> now) {
  std::vector<double> drift(w.rows());
  std::vector<float> row(w.cols()), other(w.cols());
  for (std::size_t i = 0; i < w.rows(); ++i) {
    w.decode_rows(i, i + 1, row.data());
    target.decode_rows(i, i + 1, other.data());
    for (std::size_t j = 0; j < w.cols(); ++j)
      drift[i] += static_cast<double>(row[j]) * then[j] - static_cast<double>(other[j]) * now[j];
  }
  return drift;
}

Matrix<float> drift_corrected(const WeightSource& w, MatrixView<const float> drift, MatrixView<const float> hessian,
                              const FactorOptions& options, double share) {
  const std::size_t out = w.rows(), in = w.cols();
  Matrix<float> target(out, in);
  w.decode_rows(0, out, target.data());
  const HessianFactor factor = factor_hessian(hessian, options);  // (H + Λ)⁻¹ = UᵀU in the order of the factor
  Matrix<float> missed(out, in), ordered(out, in);                // W D
  parallel_gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, target.view(), drift, 0.0f, missed.view());
  for (std::size_t i = 0; i < out; ++i)
    for (std::size_t p = 0; p < in; ++p) ordered(i, p) = missed(i, factor.order[p]);
  parallel_gemm<float>(Transpose::kNo, Transpose::kYes, 1.0f, ordered.view(), factor.upper.view(), 0.0f, missed.view());
  parallel_gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, missed.view(), factor.upper.view(), 0.0f, ordered.view());
  for (std::size_t i = 0; i < out; ++i)
    for (std::size_t p = 0; p < in; ++p)
      target(i, factor.order[p]) += static_cast<float>(share * static_cast<double>(ordered(i, p)));
  return target;
}

}  // namespace nibble::quant

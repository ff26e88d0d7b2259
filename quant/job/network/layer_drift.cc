#include "quant/job/network/layer_drift.h"

#include "core/matrix/gemm.h"
#include "quant/job/statistics/weight_statistics.h"

namespace nibble::quant {
namespace {

// Adds (a - b)ᵀ x; a becomes a - b.
void add_products(Matrix<float>& a, const Matrix<float>& b, const Matrix<float>& x, Matrix<float>& sum) {
  for (std::size_t i = 0; i < a.size(); ++i) a.data()[i] -= b.data()[i];
  const bool first = sum.size() == 0;
  if (first) sum = Matrix<float>(a.cols(), x.cols());
  parallel_gemm<float>(Transpose::kYes, Transpose::kNo, 1.0f, a.view(), x.view(), first ? 0.0f : 1.0f, sum.view());
}

// Takes  left rightᵀ  from the products of values that have these means.
void centre_products(std::span<const double> left, std::span<const double> right, Matrix<float>& products) {
  for (std::size_t i = 0; i < products.rows(); ++i)
    for (std::size_t j = 0; j < products.cols(); ++j)
      products(i, j) = static_cast<float>(static_cast<double>(products(i, j)) - left[i] * right[j]);
}

}  // namespace

void LayerDrift::centre(std::span<const double> then, std::span<const double> now) {
  std::vector<double> apart(then.begin(), then.end());
  for (std::size_t j = 0; j < apart.size(); ++j) apart[j] -= now[j];
  centre_products(apart, now, inputs);
  centre_products(stream_mean, now, stream);
}

void LayerDrift::divide_inputs(const std::vector<float>& s) {
  divide_products(s, inputs);
  for (std::size_t i = 0; i < stream.rows(); ++i)
    for (std::size_t j = 0; j < stream.cols(); ++j) stream(i, j) /= s[j];
}

bool is_added_to_stream(const model::BlockSpec& block, const model::Parameter& layer) {
  if (block.residual_multiplier == 0.0) return false;
  if (layer.role == model::Role::kO) return !block.attention_post_norm;
  const bool parallel = block.residual == model::BlockSpec::Residual::kParallel;
  return layer.role == model::Role::kDown && block.mlp && !block.mlp_post_norm &&
         (!parallel || block.attention_norm || block.mlp_norm);  // else Hooks::until tells another stream
}

LayerDrift measure_drift(const WalkedModel& original, const WalkedModel& quantized, std::size_t block,
                         const model::Parameter& layer) {
  const model::BlockSpec& spec = original.model.architecture().blocks[block];
  const bool added = is_added_to_stream(spec, layer);
  LayerDrift drift;
  std::size_t tokens = 0;
  if (added) drift.stream_mean.resize(layer.out);
  for (std::size_t batch = 0; batch < quantized.walk.batches(); ++batch) {
    auto [x, stream] = original.walk.input_of(original.model, block, layer.module, batch);
    const auto now = quantized.walk.input_of(quantized.model, block, layer.module, batch);
    tokens += x.rows();
    add_products(x, now.x, now.x, drift.inputs);
    if (!added) continue;
    add_products(stream, now.stream, now.x, drift.stream);
    for (std::size_t t = 0; t < stream.rows(); ++t)
      for (std::size_t i = 0; i < stream.cols(); ++i) drift.stream_mean[i] += static_cast<double>(stream(t, i));
  }
  const double parts = static_cast<double>(tokens) * spec.residual_multiplier;
  for (float& value : drift.inputs.values()) value /= static_cast<float>(tokens);
  for (float& value : drift.stream.values()) value = static_cast<float>(static_cast<double>(value) / parts);
  for (double& value : drift.stream_mean) value /= parts;
  return drift;
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

Matrix<float> drift_corrected(const WeightSource& w, const LayerDrift& drift, MatrixView<const float> hessian,
                              const FactorOptions& options, double share) {
  const std::size_t out = w.rows(), in = w.cols();
  Matrix<float> target(out, in);
  w.decode_rows(0, out, target.data());
  const HessianFactor factor = factor_hessian(hessian, options);  // (H + Λ)⁻¹ = UᵀU in the order of the factor
  Matrix<float> missed(out, in), ordered(out, in);                // W D + S
  parallel_gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, target.view(), drift.inputs.view(), 0.0f, missed.view());
  for (std::size_t i = 0; i < drift.stream.size(); ++i) missed.data()[i] += drift.stream.data()[i];
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

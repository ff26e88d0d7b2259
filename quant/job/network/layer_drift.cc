#include "quant/job/network/layer_drift.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/matrix/gemm.h"
#include "quant/job/statistics/weight_statistics.h"

namespace nibble::quant {
namespace {

using Half = LayerDrift::Half;

// The rows of windows first, first + 2, ...
Matrix<float> every_other_window(const Matrix<float>& x, std::size_t window_tokens, std::size_t first) {
  const std::size_t windows = x.rows() / window_tokens, values = window_tokens * x.cols();
  Matrix<float> some((windows + 1 - first) / 2 * window_tokens, x.cols());
  for (std::size_t window = first, to = 0; window < windows; window += 2, ++to)
    std::copy_n(x.data() + window * values, values, some.data() + to * values);
  return some;
}

// Adds aᵀ b.
void add_products(const Matrix<float>& a, const Matrix<float>& b, Matrix<float>& sum) {
  const bool first = sum.size() == 0;
  if (first) sum = Matrix<float>(a.cols(), b.cols());
  parallel_gemm<float>(Transpose::kYes, Transpose::kNo, 1.0f, a.view(), b.view(), first ? 0.0f : 1.0f, sum.view());
}

void add_rows(const Matrix<float>& x, std::vector<double>& sum) {
  sum.resize(x.cols());
  for (std::size_t t = 0; t < x.rows(); ++t)
    for (std::size_t j = 0; j < x.cols(); ++j) sum[j] += static_cast<double>(x(t, j));
}

Matrix<float> difference(Matrix<float> a, const Matrix<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a.data()[i] -= b.data()[i];
  return a;
}

void divide(Matrix<float>& values, double by) {
  for (float& value : values.values()) value = static_cast<float>(static_cast<double>(value) / by);
}

void divide(std::vector<double>& values, double by) {
  for (double& value : values) value /= by;
}

// Products of values that have the means `left` and `right` in place of those of the values less `left0` and `right0`.
void centre_products(std::span<const double> left, std::span<const double> left0, std::span<const double> right,
                     std::span<const double> right0, Matrix<float>& products) {
  for (std::size_t i = 0; i < products.rows(); ++i)
    for (std::size_t j = 0; j < products.cols(); ++j)
      products(i, j) = static_cast<float>(static_cast<double>(products(i, j)) - left[i] * right0[j] -
                                          left0[i] * (right[j] - right0[j]));
}

// (W D + S) Uᵀ, UᵀU = (H + Λ)⁻¹: (out, in), columns in the factor's order.
Matrix<float> whitened(const Matrix<float>& w, const Half& drift, const HessianFactor& factor) {
  Matrix<float> missed(w.rows(), w.cols()), ordered(w.rows(), w.cols());
  parallel_gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, w.view(), drift.inputs.view(), 0.0f, missed.view());
  for (std::size_t i = 0; i < drift.stream.size(); ++i) missed.data()[i] += drift.stream.data()[i];
  for (std::size_t i = 0; i < w.rows(); ++i)
    for (std::size_t p = 0; p < w.cols(); ++p) ordered(i, p) = missed(i, factor.order[p]);
  parallel_gemm<float>(Transpose::kNo, Transpose::kYes, 1.0f, ordered.view(), factor.upper.view(), 0.0f, missed.view());
  return missed;
}

// What all tokens say, from two halves that have these shares of them, shrunk by what the halves differ by.
void join_halves(std::span<float> first, std::span<const float> second, double share) {
  double all = 0.0, noise = 0.0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const double a = static_cast<double>(first[i]), b = static_cast<double>(second[i]);
    const double mean = share * a + (1.0 - share) * b, apart = a - b;
    first[i] = static_cast<float>(mean);
    all += mean * mean;
    noise += share * (1.0 - share) * apart * apart;
  }
  const auto kept = static_cast<float>(signal_share(all, noise));
  for (float& value : first) value *= kept;
}

}  // namespace

std::vector<double> LayerDrift::mean_of(std::vector<double> Half::*values) const {
  std::vector<double> mean((halves[0].*values).size());
  for (const Half& half : halves)
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += half.tokens / tokens() * (half.*values)[i];
  return mean;
}

std::vector<double> LayerDrift::float_input_mean() const {
  std::vector<double> mean = mean_of(&Half::input_mean);
  const std::vector<double> off = mean_of(&Half::inputs_off);
  for (std::size_t j = 0; j < mean.size(); ++j) mean[j] += off[j];
  return mean;
}

void LayerDrift::centre() {
  const auto mean = mean_of(&Half::input_mean), inputs_off = mean_of(&Half::inputs_off),
             stream_off = mean_of(&Half::stream_off);
  for (Half& half : halves) {
    centre_products(half.inputs_off, inputs_off, half.input_mean, mean, half.inputs);
    centre_products(half.stream_off, stream_off, half.input_mean, mean, half.stream);
  }
}

void LayerDrift::divide_inputs(const std::vector<float>& s) {
  for (Half& half : halves) {
    divide_products(s, half.inputs);
    for (std::size_t i = 0; i < half.stream.rows(); ++i)
      for (std::size_t j = 0; j < half.stream.cols(); ++j) half.stream(i, j) /= s[j];
  }
}

bool is_added_to_stream(const model::BlockSpec& block, const model::Parameter& layer) {
  if (block.residual_multiplier == 0.0) return false;
  if (layer.role == model::Role::kO) return !block.attention_post_norm;
  const bool parallel = block.residual == model::BlockSpec::Residual::kParallel;
  return layer.role == model::Role::kDown && block.mlp && !block.mlp_post_norm &&
         (!parallel || block.attention_norm || block.mlp_norm);  // else Hooks::until tells another stream
}

DriftSums::DriftSums(std::size_t window_tokens, double residual_multiplier, bool squares)
    : window_tokens_(window_tokens), multiplier_(residual_multiplier), with_squares_(squares) {}

void DriftSums::add(const calib::LayerInput& original, const calib::LayerInput& quantized) {
  NIBBLE_REQUIRE(original.x.rows() == quantized.x.rows() && original.x.rows() % window_tokens_ == 0, InvalidArgument,
                 "drift of {} and {} tokens is not of the same windows of {}", original.x.rows(), quantized.x.rows(),
                 window_tokens_);
  for (std::size_t first = 0; first < 2; ++first) {
    Half& half = sums_.halves[(windows_ + first) % 2];
    const auto some = [&](const Matrix<float>& rows) { return every_other_window(rows, window_tokens_, first); };
    const Matrix<float> x = some(quantized.x);
    if (x.rows() == 0) continue;
    half.tokens += static_cast<double>(x.rows());
    add_rows(x, half.input_mean);
    const Matrix<float> inputs_off = difference(some(original.x), x);
    add_products(inputs_off, x, half.inputs);
    if (with_squares_) add_products(inputs_off, inputs_off, squares_);
    add_rows(inputs_off, half.inputs_off);
    if (quantized.stream.size() == 0) continue;
    const Matrix<float> stream_off = difference(some(original.stream), some(quantized.stream));
    add_products(stream_off, x, half.stream);
    add_rows(stream_off, half.stream_off);
  }
  windows_ += original.x.rows() / window_tokens_;
}

Matrix<float> DriftSums::take_squares() {
  divide(squares_, sums_.tokens());
  return std::exchange(squares_, {});
}

LayerDrift DriftSums::take() {
  NIBBLE_REQUIRE(windows_ >= 2, InvalidArgument, "drift is told from noise by two windows or more, not {}", windows_);
  for (Half& half : sums_.halves) {
    divide(half.inputs, half.tokens);
    divide(half.stream, half.tokens * multiplier_);
    divide(half.input_mean, half.tokens);
    divide(half.inputs_off, half.tokens);
    divide(half.stream_off, half.tokens * multiplier_);
  }
  return std::exchange(sums_, {});
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

double signal_share(double all, double noise) { return all > noise ? 1.0 - noise / all : 0.0; }

Matrix<float> drift_corrected(const WeightSource& w, const LayerDrift& drift, MatrixView<const float> hessian,
                              const FactorOptions& options, double share) {
  const std::size_t out = w.rows(), in = w.cols();
  Matrix<float> target(out, in);
  w.decode_rows(0, out, target.data());
  const HessianFactor factor = factor_hessian(hessian, options);
  Matrix<float> missed = whitened(target, drift.halves[0], factor);
  {
    const Matrix<float> other = whitened(target, drift.halves[1], factor);
    const double first = drift.halves[0].tokens / drift.tokens();
    for (std::size_t i = 0; i < out; ++i) join_halves(missed.row(i), other.row(i), first);
  }
  Matrix<float> ordered(out, in);
  parallel_gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, missed.view(), factor.upper.view(), 0.0f, ordered.view());
  for (std::size_t i = 0; i < out; ++i)
    for (std::size_t p = 0; p < in; ++p)
      target(i, factor.order[p]) += static_cast<float>(share * static_cast<double>(ordered(i, p)));
  return target;
}

}  // namespace nibble::quant

#include "quant/job/network/map_inputs.h"

#include <cmath>
#include <utility>

#include "calib/stats/derived.h"
#include "core/matrix/gemm.h"
#include "core/matrix/rounded.h"

namespace nibble::quant {
namespace {

// E[d xᵀ] about the means, as `squares` are: d x~ᵀ and d dᵀ make it up.
Matrix<float> off_inputs(const LayerDrift& drift, const Matrix<float>& squares, const InputMap& map) {
  Matrix<float> products(squares.rows(), squares.cols());
  for (std::size_t i = 0; i < products.rows(); ++i)
    for (std::size_t j = 0; j < products.cols(); ++j) {
      double product = static_cast<double>(squares(i, j)) - (map.then[i] - map.now[i]) * map.now[j];
      for (const LayerDrift::Half& half : drift.halves)
        product += half.tokens / drift.tokens() * static_cast<double>(half.inputs(i, j));
      products(i, j) = static_cast<float>(product);
    }
  return products;
}

void centre_squares(const InputMap& map, Matrix<float>& squares) {
  for (std::size_t i = 0; i < squares.rows(); ++i)
    for (std::size_t j = 0; j < squares.cols(); ++j)
      squares(i, j) = static_cast<float>(static_cast<double>(squares(i, j)) -
                                         (map.then[i] - map.now[i]) * (map.then[j] - map.now[j]));
}

// Makes E[x~ x~ᵀ] E[x xᵀ], which is that + P + Pᵀ - E[d dᵀ]; 0 where x does not vary, but for rounding, and P with it.
void to_float_inputs(const Matrix<float>& squares, const std::vector<double>& mean, Matrix<float>& p,
                     Matrix<float>& products) {
  constexpr double kRounding = 0x1p-20;
  const std::size_t n = products.rows();
  std::vector<std::uint8_t> constant(n);
  for (std::size_t j = 0; j < n; ++j) {
    const double now = static_cast<double>(products(j, j)), off = static_cast<double>(p(j, j)),
                 square = static_cast<double>(squares(j, j)), size = now + 2.0 * std::abs(off) + square;
    constant[j] = !(now + 2.0 * off - square > kRounding * (size + mean[j] * mean[j]));
  }
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      const float product = products(i, j) + p(i, j) + p(j, i) - squares(i, j);
      products(i, j) = products(j, i) = constant[i] != 0 || constant[j] != 0 ? 0.0f : product;
    }
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      if (constant[j] != 0) p(i, j) = 0.0f;
}

Matrix<float> product(const Matrix<float>& a, Transpose transpose_b, const Matrix<float>& b) {
  Matrix<float> c(a.rows(), b.cols());  // all of them square
  parallel_gemm<float>(Transpose::kNo, transpose_b, 1.0f, a.view(), b.view(), 0.0f, c.view());
  return c;
}

// P Uᵀ, UᵀU = (C + Λ)⁻¹, whose rows' squares are what is foretold of E[d_i²].
void shrink_rows(const Matrix<float>& squares, double tokens, Matrix<float>& whitened) {
  const double inputs = static_cast<double>(whitened.cols());
  for (std::size_t i = 0; i < whitened.rows(); ++i) {
    double foretold = 0.0;
    for (const float value : whitened.row(i)) foretold += static_cast<double>(value) * static_cast<double>(value);
    const double left = std::fmax(0.0, static_cast<double>(squares(i, i)) - foretold);
    const double kept = tokens > inputs ? signal_share(foretold, inputs / (tokens - inputs) * left) : 0.0;
    for (float& value : whitened.row(i)) value = static_cast<float>(kept * static_cast<double>(value));
  }
}

}  // namespace

InputMap map_inputs(const calib::LayerStats& now, const LayerDrift& drift, Matrix<float> squares, double damping) {
  InputMap map;
  map.then = drift.float_input_mean();
  map.now = drift.mean_of(&LayerDrift::Half::input_mean);
  centre_squares(map, squares);
  Matrix<float> p = off_inputs(drift, squares, map);
  Matrix<float> c = rounded(calib::hessian(now, calib::HessianKind::kCentred));
  for (std::size_t j = 0; j < c.rows(); ++j) map.constant.push_back(c(j, j) == 0.0f);
  to_float_inputs(squares, map.then, p, c);
  {
    const HessianFactor factor = factor_hessian<float>(c.view(), {.damping = damping, .act_order = false});
    Matrix<float> whitened = product(p, Transpose::kYes, factor.upper);
    shrink_rows(squares, drift.tokens(), whitened);
    map.change = product(whitened, Transpose::kNo, factor.upper);
  }
  // E[d dᵀ] - change Pᵀ - P changeᵀ + change C changeᵀ
  map.rest = std::move(squares);
  {
    const Matrix<float> foretold = product(map.change, Transpose::kYes, p);
    for (std::size_t i = 0; i < c.rows(); ++i)
      for (std::size_t j = 0; j < c.cols(); ++j) map.rest(i, j) -= foretold(i, j) + foretold(j, i);
  }
  p = product(map.change, Transpose::kNo, c);
  parallel_gemm<float>(Transpose::kNo, Transpose::kYes, 1.0f, p.view(), map.change.view(), 1.0f, map.rest.view());
  return map;
}

}  // namespace nibble::quant

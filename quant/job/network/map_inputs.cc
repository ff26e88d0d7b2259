#include "quant/job/network/map_inputs.h"

#include <utility>

#include "calib/stats/derived.h"
#include "core/matrix/gemm.h"
#include "core/matrix/rounded.h"

namespace nibble::quant {
namespace {

constexpr double kDamping = 1e-4;  // floats hold it, and the change is told by many tokens an input

// About the means, E[x xᵀ], and E[(x - x~) xᵀ] = E[(x - x~) x~ᵀ] + E[(x - x~)(x - x~)ᵀ].
struct Products {
  Matrix<float> inputs, off_inputs;
};

Products products_of(const calib::LayerStats& now, const LayerDrift& drift, const Matrix<float>& squares) {
  const std::size_t n = squares.rows();
  Products made{rounded(calib::hessian(now, calib::HessianKind::kCentred)), Matrix<float>(n, n)};
  const std::vector<double> mean = drift.mean_of(&LayerDrift::Half::input_mean),
                            off = drift.mean_of(&LayerDrift::Half::inputs_off);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      double product = -off[i] * mean[j];
      for (const LayerDrift::Half& half : drift.halves)
        product += half.tokens / drift.tokens() * static_cast<double>(half.inputs(i, j));
      made.off_inputs(i, j) = static_cast<float>(product);
    }
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      const float product = made.inputs(i, j) + made.off_inputs(i, j) + made.off_inputs(j, i) + squares(i, j);
      made.inputs(i, j) = made.inputs(j, i) = product;
    }
  for (std::size_t i = 0; i < squares.size(); ++i) made.off_inputs.data()[i] += squares.data()[i];
  return made;
}

// About the mean.
Matrix<float> squares_of(const LayerDrift& drift) {
  Matrix<float> squares = drift.squares;
  const std::vector<double> off = drift.mean_of(&LayerDrift::Half::inputs_off);
  for (std::size_t i = 0; i < squares.rows(); ++i)
    for (std::size_t j = 0; j < squares.cols(); ++j)
      squares(i, j) = static_cast<float>(static_cast<double>(squares(i, j)) - off[i] * off[j]);
  return squares;
}

Matrix<float> product(const Matrix<float>& a, Transpose transpose_b, const Matrix<float>& b) {
  Matrix<float> c(a.rows(), b.cols());  // all of them square
  parallel_gemm<float>(Transpose::kNo, transpose_b, 1.0f, a.view(), b.view(), 0.0f, c.view());
  return c;
}

}  // namespace

InputMap map_inputs(const calib::LayerStats& now, const LayerDrift& drift) {
  InputMap map;
  map.rest = squares_of(drift);
  Matrix<float> whitened;
  std::vector<double> damping;
  {
    Products products = products_of(now, drift, map.rest);
    HessianFactor factor = factor_hessian<float>(products.inputs.view(), {.damping = kDamping, .act_order = false});
    products.inputs = {};
    whitened = product(products.off_inputs, Transpose::kYes, factor.upper);
    products.off_inputs = {};
    map.change = product(whitened, Transpose::kNo, factor.upper);
    damping = std::move(factor.damping);
  }
  parallel_gemm<float>(Transpose::kNo, Transpose::kYes, -1.0f, whitened.view(), whitened.view(), 1.0f, map.rest.view());
  for (std::size_t i = 0; i < map.change.rows(); ++i)  // change Λ
    for (std::size_t j = 0; j < map.change.cols(); ++j)
      whitened(i, j) = static_cast<float>(static_cast<double>(map.change(i, j)) * damping[j]);
  parallel_gemm<float>(Transpose::kNo, Transpose::kYes, -1.0f, whitened.view(), map.change.view(), 1.0f,
                       map.rest.view());
  map.now = calib::mean_input(now);
  map.then = drift.float_input_mean();
  return map;
}

}  // namespace nibble::quant

#include "quant/tensor/usable_output_hessian.h"

#include <utility>

#include "core/matrix/rounded.h"

namespace nibble::quant {

Matrix<float> usable_output_hessian(const Matrix<double>& h) {
  constexpr float kSilent = 0.01f;
  Matrix<float> result = rounded(h);
  bool any = false;
  for (std::size_t i = 0; i < result.rows(); ++i) {
    if (result(i, i) == 0.0f)
      result(i, i) = kSilent;
    else  // also what is no number, which the solver names
      any = true;
  }
  return any ? std::move(result) : Matrix<float>();
}

}  // namespace nibble::quant

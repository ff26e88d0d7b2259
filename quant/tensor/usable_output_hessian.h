#pragma once

#include "core/matrix/matrix_view.h"

namespace nibble::quant {

/// WeightStatistics::output_hessian of H_O (out, out), calib::output_hessian(). Outputs that no gradient came to are
/// not outputs that do not matter: they count alone, a hundredth of the mean, or codes that depend on each other
/// (windows) would make noise of them. Empty where there is no gradient at all: then all outputs count alike.
Matrix<float> usable_output_hessian(const Matrix<double>& h);

}  // namespace nibble::quant

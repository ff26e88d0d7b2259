#pragma once

#include "calib/stats/derived.h"
#include "calib/stats/statistic_set.h"
#include "quant/recipe/settings.h"

namespace nibble::quant {

/// The Hessian that a weight's codes are solved under, as the recipe's `hessian` says. With solver: nearest it only
/// measures output errors: plain, or centred if the bias is shifted (the mean error is then in the bias).
calib::HessianKind hessian_kind(const TensorSettings& settings);

/// What that Hessian is made of.
calib::StatisticSet hessian_statistics(const TensorSettings& settings);

}  // namespace nibble::quant

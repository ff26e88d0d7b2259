#pragma once

#include <cstdint>
#include <vector>

#include "core/matrix/matrix_view.h"
#include "quant/job/statistics/calibration.h"
#include "quant/tensor/weight_parts.h"

namespace nibble::quant {

/// What the settings of `item` need and what its errors are measured with, as far as there is some: Fisher
/// sensitivities, and the Hessian that hessian_kind() names. A guided centred one comes with the mean input of its own
/// weights, which is then also what shifting corrects with; both as they are of the item's inputs (input_map.h).
/// Throws as Calibration::read().
WeightStatistics statistics_for(const QuantizeItem& item, const Calibration& calibration);

/// Of these only what errors are measured with, as far as there is some: for codes that are there already.
WeightStatistics error_statistics_for(const QuantizeItem& item, const Calibration& calibration);

/// Sums of products of inputs (in, in), of x/s in place of x: each entry divided by both its inputs' s (in).
void divide_products(const std::vector<float>& s, Matrix<float>& products);

/// About the bytes that an item occupies while it is in work, with its statistics: `held`, or what the calibration
/// holds of its layer.
std::uint64_t work_bytes(const QuantizeItem& item, const calib::StatisticSet& held);
std::uint64_t work_bytes(const QuantizeItem& item, const Calibration& calibration);

}  // namespace nibble::quant

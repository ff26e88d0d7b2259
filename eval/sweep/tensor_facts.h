#pragma once

#include <memory>
#include <vector>

#include "eval/sweep/record.h"
#include "model/architecture/architecture.h"
#include "model/checkpoint/checkpoint.h"
#include "quant/job/quantize_model.h"

namespace nibble::eval {

/// Bins of the histograms in records.
constexpr std::size_t kHistogramBins = 64;

/// The figures of a quantized model's weights, with palettes and histograms: `result` is what quantize_model() said,
/// `quantized` what it wrote, `original` the float checkpoint. Reads every weight once. Throws FormatError.
std::vector<TensorRecord> tensor_records(const quant::QuantizeResult& result,
                                         const std::shared_ptr<const model::Checkpoint>& quantized,
                                         const std::shared_ptr<const model::Checkpoint>& original,
                                         const model::Architecture& architecture, const quant::Recipe& recipe);

/// Counts values in kHistogramBins bins of equal width from the smallest to the largest. Requires finite values.
Histogram histogram_of(std::span<const float> values);

}  // namespace nibble::eval

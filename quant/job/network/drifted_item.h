#pragma once

#include <vector>

#include "calib/stats/layer_stats.h"
#include "quant/job/network/layer_drift.h"
#include "quant/job/plan/plan.h"

namespace nibble::quant {

/// Whether the item's weight makes up for drift. Experts' do not: from model to model other tokens choose them.
bool is_drift_corrected(const QuantizeItem& item);
/// Whether codes are solved for under a guided Hessian that is carried along with its inputs' drift.
bool is_guide_carried(const QuantizeItem& item);
/// Whether its bias makes up for drift, and its weight does not.
bool is_shifted_alone(const QuantizeItem& item);

/// The inputs of a layer when its turn comes.
struct DriftedInputs {
  const calib::LayerStats& now;     ///< activations and Hessian of those that it gets behind quantized layers
  const std::vector<double>* then;  ///< their mean in the float model, where the item's bias is shifted, or null
  const LayerDrift* drift;          ///< where the item is corrected, or null
};

/// What is quantized in place of `item`, whose inputs have drifted:
///
///   source        the weight that makes up for that, by the item's drift_correction (drift_corrected()); where a bias
///                 takes up the means, about the means of inputs and stream
///   output_drift  mu Wᵀ - mu~ Tᵀ + drift_correction · the stream's mean drift, mu~ the mean of `now` and T `source`:
///                 what the bias takes up
///
/// each where `inputs` has what it needs, and else as it was. Cost and errors: drift_corrected(). Memory: 4 bytes a
/// weight in the result.
[[nodiscard]] QuantizeItem drifted_item(const QuantizeItem& item, const DriftedInputs& inputs);

}  // namespace nibble::quant

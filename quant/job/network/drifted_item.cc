#include "quant/job/network/drifted_item.h"

#include <memory>
#include <utility>

#include "calib/stats/derived.h"
#include "core/matrix/rounded.h"
#include "core/matrix/view_source.h"
#include "quant/job/statistics/weight_statistics.h"
#include "quant/tensor/solve_codes.h"

namespace nibble::quant {
namespace {

struct OwnedWeight {
  explicit OwnedWeight(Matrix<float> values) : weight(std::move(values)), source(weight.view()) {}
  Matrix<float> weight;
  ViewSource source;
};

Matrix<float> corrected_weight(const QuantizeItem& item, const DriftedInputs& inputs) {
  LayerDrift drift = *inputs.drift;
  if (inputs.then != nullptr) drift.centre();
  Matrix<float> hessian =
      rounded(calib::hessian(inputs.now, inputs.then != nullptr ? HessianKind::kCentred : HessianKind::kPlain));
  if (item.input_scales) {  // as the weight is
    drift.divide_inputs(*item.input_scales);
    divide_products(*item.input_scales, hessian);
  }
  return drift_corrected(*item.source, drift, hessian.view(), factor_options(item.settings, true),
                         item.settings.drift_correction);
}

std::vector<double> mean_output_drift(const QuantizeItem& item, const WeightSource& target,
                                      const DriftedInputs& inputs) {
  std::vector<double> then = *inputs.then, now = calib::mean_input(inputs.now);
  if (item.input_scales)  // as the weight is
    for (std::size_t j = 0; j < now.size(); ++j) {
      const double s = static_cast<double>((*item.input_scales)[j]);
      then[j] /= s;
      now[j] /= s;
    }
  std::vector<double> missed = output_drift(*item.source, then, target, now);
  if (inputs.drift != nullptr) {
    const std::vector<double> stream_off = inputs.drift->mean_of(&LayerDrift::Half::stream_off);
    for (std::size_t i = 0; i < stream_off.size(); ++i) missed[i] += item.settings.drift_correction * stream_off[i];
  }
  return missed;
}

}  // namespace

bool is_drift_corrected(const QuantizeItem& item) {
  return item.settings.sequential && item.settings.drift_correction > 0.0 && item.identity.block_linear &&
         !item.layer.expert;
}

bool is_guide_carried(const QuantizeItem& item) {
  return is_drift_corrected(item) && calib::is_guided(item.settings.hessian) &&
         item.settings.guided_inputs == GuidedInputs::kDrifted;
}

bool is_shifted_alone(const QuantizeItem& item) {
  return item.settings.sequential && item.settings.shifting && !is_drift_corrected(item);
}

QuantizeItem drifted_item(const QuantizeItem& item, const DriftedInputs& inputs) {
  QuantizeItem made = item;
  if (inputs.drift != nullptr) {
    const auto owned = std::make_shared<const OwnedWeight>(corrected_weight(item, inputs));
    made.source = {owned, &owned->source};
  }
  if (inputs.then != nullptr) made.output_drift = mean_output_drift(item, *made.source, inputs);
  return made;
}

}  // namespace nibble::quant

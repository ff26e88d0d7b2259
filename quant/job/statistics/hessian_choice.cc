#include "quant/job/statistics/hessian_choice.h"

namespace nibble::quant {

calib::HessianKind hessian_kind(const TensorSettings& settings) {
  if (settings.solver == Solver::kNearest) return settings.shifting ? HessianKind::kCentred : HessianKind::kPlain;
  return settings.hessian;
}

calib::StatisticSet hessian_statistics(const TensorSettings& settings) {
  const calib::HessianKind kind = hessian_kind(settings);
  const bool guided = kind == calib::HessianKind::kGuided || kind == calib::HessianKind::kGuidedCentred;
  const bool centred = kind == calib::HessianKind::kCentred || kind == calib::HessianKind::kGuidedCentred;
  return {.activations = centred, .fisher = false, .hessian = !guided, .guided_hessian = guided};
}

}  // namespace nibble::quant

#include "quant/pipeline/weight_statistics.h"

#include <algorithm>

#include "calib/stats/derived.h"
#include "quant/pipeline/hessian_choice.h"

namespace nibble::quant {
namespace {

using calib::StatisticSet;

bool needs_activations(const TensorSettings& settings) {
  return settings.shifting || settings.weighting == Weighting::kSecondMoment ||
         settings.weighting == Weighting::kMagnitude;
}

}  // namespace

WeightStatistics statistics_for(const QuantizeItem& item, const Calibration& calibration) {
  const TensorSettings& settings = item.settings;
  WeightStatistics statistics;
  if (settings.format == Format::kFloat16) return statistics;
  if (needs_activations(settings)) {
    const auto layer = calibration.read(item, {.activations = true});
    statistics.second_moment = calib::second_moment(layer);
    statistics.magnitude = calib::mean_magnitude(layer);
    statistics.mean_input = calib::mean_input(layer);
  }
  if (calibration.holds(item.layer.module, {.fisher = true}))
    statistics.fisher = calib::mean_fisher(calibration.read(item, {.fisher = true}));
  const StatisticSet for_hessian = hessian_statistics(settings);
  if (calibration.holds(item.layer.module, for_hessian)) {
    const auto layer = calibration.read(item, for_hessian);
    const calib::HessianKind kind = hessian_kind(settings);
    if (kind == calib::HessianKind::kGuidedCentred) statistics.mean_input = calib::correction_mean(layer, kind);
    const auto h = calib::hessian(layer, kind);
    statistics.hessian = Matrix<float>(h.rows(), h.cols());
    std::transform(h.values().begin(), h.values().end(), statistics.hessian.data(),
                   [](double value) { return static_cast<float>(value); });
  }
  return statistics;
}

std::uint64_t work_bytes(const QuantizeItem& item, const Calibration& calibration) {
  constexpr std::uint64_t kWeight = 5, kPaletteWeights = 4, kScaled = 9, kFisherRead = 4, kFisher = 8, kHessian = 16,
                          kSolver = 10;
  const TensorSettings& settings = item.settings;
  const std::uint64_t in = item.source->cols();
  std::uint64_t bytes = item.weights() * kWeight;
  if (settings.weighting != Weighting::kNone) bytes += item.weights() * kPaletteWeights;
  if (settings.scaling != Scaling::kNone) bytes += item.weights() * kScaled;
  if (calibration.holds(item.layer.module, {.fisher = true}))
    bytes += item.layer.out * in * kFisherRead + item.weights() * kFisher;
  if (settings.solver != Solver::kNearest) bytes += item.weights() * kSolver;
  if (calibration.holds(item.layer.module, hessian_statistics(settings))) bytes += in * in * kHessian;
  return bytes;
}

}  // namespace nibble::quant

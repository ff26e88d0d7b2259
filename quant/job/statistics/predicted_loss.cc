#include "quant/job/statistics/predicted_loss.h"

#include <cmath>

#include "calib/stats/derived.h"
#include "core/matrix/rounded.h"
#include "quant/algo/solve/hessian.h"
#include "quant/store/quantization_config.h"
#include "quant/tensor/solve_codes.h"

namespace nibble::quant {
namespace {

using calib::StatisticSet;

// W - What as the layer's inputs see it.
Matrix<float> weight_error(const QuantizeItem& item, const WeightParts& made) {
  const WeightSource& w = *item.source;
  const QuantizedTensor decoded(item.identity.name, stored_tensor(item.settings, w.rows(), w.cols()).spec, made.parts);
  Matrix<float> delta(w.rows(), w.cols());
  w.decode_rows(0, w.rows(), delta.data());
  std::vector<float> row(w.cols());
  for (std::size_t i = 0; i < delta.rows(); ++i) {
    decoded.decode_rows(i, i + 1, row.data());
    for (std::size_t j = 0; j < row.size(); ++j) {
      delta(i, j) -= row[j];
      if (item.input_scales) delta(i, j) /= (*item.input_scales)[j];
    }
  }
  return delta;
}

// From squared gradients of the run's loss, summed over a window, to nats per token. The loss is that of all next
// tokens of the window, also for an expert, whatever share of them chose it.
double unit_of(const std::string& module, const Calibration& calibration, const StatisticSet& what) {
  const double targets = static_cast<double>(calibration.window_tokens(module, what)) - 1.0;
  return calibration.flavour(module, what) == calib::FisherFlavour::kSequence ? targets : 1.0 / targets;
}

double fisher_loss(const Matrix<float>& delta, const calib::LayerStats& layer) {
  double sum = 0.0;
  for (std::size_t i = 0; i < delta.size(); ++i)
    sum += static_cast<double>(layer.fisher.data()[i]) * std::pow(static_cast<double>(delta.data()[i]), 2);
  return sum / static_cast<double>(layer.samples);
}

double quadratic_loss(const Matrix<float>& delta, const calib::LayerStats& layer, calib::HessianKind kind) {
  return hessian_error(delta.view(), rounded(calib::hessian(layer, kind)).view());
}

// H_O is damped as it is for solving, and its diagonal stays 1 on average.
double coupled_loss(const Matrix<float>& delta, const calib::LayerStats& layer, calib::HessianKind kind) {
  const Matrix<float> h = rounded(calib::hessian(layer, kind));
  Matrix<float> h_out = rounded(calib::output_hessian(layer));
  for (std::size_t i = 0; i < h_out.rows(); ++i) h_out(i, i) += kOutputDamping;
  return coupled_hessian_error(delta.view(), h.view(), h_out.view()) / (1.0 + static_cast<double>(kOutputDamping));
}

// Rows times the square roots of f_i.
void weight_rows(Matrix<float>& delta, const calib::LayerStats& layer) {
  const std::vector<double> squares = calib::second_moment(layer);
  double power = 0.0;
  for (const double square : squares) power += square;
  for (std::size_t i = 0; i < delta.rows(); ++i) {
    double sum = 0.0;
    for (const float value : layer.fisher.row(i)) sum += static_cast<double>(value);
    const double f = power > 0.0 ? sum / static_cast<double>(layer.samples) / power : 0.0;
    for (float& value : delta.row(i)) value *= static_cast<float>(std::sqrt(f));
  }
}

bool errors_are_independent(std::span<const QuantizeItem> items) {
  return std::all_of(items.begin(), items.end(), [](const QuantizeItem& item) {
    return !item.identity.block_linear || !item.settings.coded() || item.settings.solver == Solver::kNearest;
  });
}

// Rows of all codes make up for each other; those of rare experts do not, and change no other weight's estimate.
bool rows_are_coupled(std::span<const QuantizeItem> items) {
  return std::all_of(items.begin(), items.end(), [](const QuantizeItem& item) {
    return !item.identity.block_linear || !item.settings.coded() || item.settings.output_hessian || item.rare_expert;
  });
}

}  // namespace

StatisticSet statistics_of(LossEstimate estimate) {
  switch (estimate) {
    case LossEstimate::kFisher:
      return {.fisher = true};
    case LossEstimate::kGuidedHessian:
      return {.guided_hessian = true};
    case LossEstimate::kKronecker:
      return {.guided_hessian = true, .output_hessian = true};
    case LossEstimate::kAuto:
    case LossEstimate::kFisherHessian:
      break;
  }
  return {.activations = true, .fisher = true, .hessian = true};
}

LossEstimate least_loss_estimate(LossEstimate wanted, std::span<const QuantizeItem> items) {
  if (wanted != LossEstimate::kAuto) return wanted;
  if (errors_are_independent(items)) return LossEstimate::kFisher;
  return rows_are_coupled(items) ? LossEstimate::kKronecker : LossEstimate::kGuidedHessian;
}

LossEstimate choose_loss_estimate(LossEstimate wanted, std::span<const QuantizeItem> items,
                                  const Calibration& calibration) {
  const auto all_hold = [&](LossEstimate estimate) {
    return std::all_of(items.begin(), items.end(), [&](const QuantizeItem& item) {
      StatisticSet needed = statistics_of(estimate);
      return !item.identity.block_linear || calibration.holds(item.layer.module, needed);
    });
  };
  LossEstimate estimate = wanted;
  if (wanted == LossEstimate::kAuto) {
    // What is measured best first (docs/results/budget.md); when none is there, what is missing is asked for.
    if (!errors_are_independent(items) && rows_are_coupled(items) && all_hold(LossEstimate::kKronecker))
      estimate = LossEstimate::kKronecker;
    else if (!errors_are_independent(items) && all_hold(LossEstimate::kGuidedHessian))
      estimate = LossEstimate::kGuidedHessian;
    else if (all_hold(LossEstimate::kFisherHessian))
      estimate = LossEstimate::kFisherHessian;
    else
      estimate = least_loss_estimate(wanted, items);
  }
  for (const QuantizeItem& item : items)
    if (item.identity.block_linear)
      calibration.require(item, "budget: weighing bits against loss", statistics_of(estimate));
  return estimate;
}

double predicted_loss(const QuantizeItem& item, const WeightParts& made, const Calibration& calibration,
                      LossEstimate estimate) {
  if (!item.settings.coded()) return 0.0;
  if (calibration.tokens(item.layer.module, statistics_of(estimate)) == 0) return 0.0;  // an expert nobody chose
  Matrix<float> delta = weight_error(item, made);
  const bool centred = item.settings.shifting;
  const StatisticSet what = statistics_of(estimate);
  const auto layer = calibration.read(item, what);
  const double unit = unit_of(item.layer.module, calibration, what);
  if (estimate == LossEstimate::kFisher) return 0.5 * unit * fisher_loss(delta, layer);
  if (estimate == LossEstimate::kGuidedHessian || estimate == LossEstimate::kKronecker) {
    // calib::hessian() divides by the tokens, not the windows.
    const double window = static_cast<double>(layer.tokens) / static_cast<double>(layer.samples);
    const auto kind = centred ? calib::HessianKind::kGuidedCentred : calib::HessianKind::kGuided;
    const auto loss = estimate == LossEstimate::kKronecker ? coupled_loss : quadratic_loss;
    return 0.5 * unit * window * loss(delta, layer, kind);
  }
  weight_rows(delta, layer);
  return 0.5 * unit * quadratic_loss(delta, layer, centred ? calib::HessianKind::kCentred : calib::HessianKind::kPlain);
}

}  // namespace nibble::quant

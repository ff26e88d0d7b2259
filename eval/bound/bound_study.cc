#include "eval/bound/bound_study.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>

#include "core/error.h"
#include "core/matrix/view_source.h"
#include "eval/quality/statistics.h"
#include "quant/job/statistics/calibration.h"
#include "quant/job/statistics/weight_statistics.h"
#include "quant/recipe/lone_settings.h"
#include "quant/store/quantization_config.h"
#include "quant/tensor/quantize_tensor.h"

namespace nibble::eval {
namespace {

constexpr const char *kLayer = "layer", *kTensor = "layer.weight";

quant::TensorSettings settings_of(const Method& method, std::size_t columns) {
  const quant::TensorSettings settings = quant::lone_settings(method.recipe, kTensor, method.name);
  NIBBLE_REQUIRE(!settings.sequential, InvalidArgument,
                 "{}: sequential: a layer alone has no layers in front of it; say sequential: false and "
                 "drift_correction: 0, or a preset that ends with -one-shot",
                 method.name);
  NIBBLE_REQUIRE(settings.coded(), InvalidArgument, "{}: format: float16 is no quantization; expected another format",
                 method.name);
  NIBBLE_REQUIRE(columns % settings.cluster_dim == 0, InvalidArgument,
                 "{}: cluster_dim: {} columns cannot be cut into vectors of {}; choose other --columns", method.name,
                 columns, settings.cluster_dim);
  return settings;
}

// Of one method on one layer.
struct Outcome {
  double bits_per_weight = 0.0, error = 0.0, bound = 0.0, needed_bits = 0.0, seconds = 0.0;
};

// A layer with what comparing needs of it, made once for all methods.
struct Subject {
  explicit Subject(SyntheticLayer made) : layer(std::move(made)), bound(layer.bound()), power(weighed_power(layer)) {
    quant::LiveStatistics live;
    live.layers[kLayer] = std::make_shared<const calib::LayerStats>(exact_statistics(layer, kLayer));
    calibration = calibration.with(std::move(live));
  }
  SyntheticLayer layer;
  WaterFilling bound;
  double power;
  quant::Calibration calibration;
};

quant::WeightParts quantize(const Method& method, const quant::QuantizeItem& item,
                            const quant::Calibration& calibration) try {
  return quant::quantize_tensor(kLayer, *item.source, item.settings, quant::statistics_for(item, calibration));
} catch (const NumericalError& error) {
  throw NumericalError(fmt::format("{}: {}", method.name, error.what()));
}

Outcome outcome_of(const Method& method, const quant::TensorSettings& settings, const Subject& subject) {
  const Matrix<float>& weight = subject.layer.weight;
  quant::QuantizeItem item;
  item.identity = {kLayer, 0, true};
  item.source = std::make_shared<ViewSource>(weight);
  item.settings = settings;
  item.layer.module = kLayer;
  item.layer.out = weight.rows();
  item.layer.in = weight.cols();
  const auto start = std::chrono::steady_clock::now();
  quant::WeightParts made = quantize(method, item, subject.calibration);
  Outcome outcome;
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const quant::QuantizedTensor tensor(kLayer, quant::stored_tensor(settings, weight.rows(), weight.cols()).spec,
                                      std::move(made.parts));
  constexpr double kBiasBits = 16.0;
  outcome.bits_per_weight =
      (static_cast<double>(tensor.stored_bits()) + kBiasBits * static_cast<double>(made.bias_correction.size())) /
      static_cast<double>(weight.size());
  Matrix<float> decoded(weight.rows(), weight.cols());
  tensor.decode_rows(0, weight.rows(), decoded.data());
  const double error = weighed_error(subject.layer, decoded);
  outcome.error = error / subject.power;
  outcome.bound = subject.bound.distortion(outcome.bits_per_weight) / subject.power;
  NIBBLE_REQUIRE(
      outcome.error > 0.0 && outcome.bound > 0.0, NumericalError,
      "{}: a layer of {} by {} is too small to compare: {:.1f} bits a weight, palettes and scales among them, "
      "leave {}; give it more rows and columns",
      method.name, weight.rows(), weight.cols(), outcome.bits_per_weight,
      outcome.error > 0.0 ? "a bound of 0" : "no error");
  outcome.needed_bits = subject.bound.bits(error);
  return outcome;
}

template <class Value>
OverLayers over_layers(std::span<const Outcome> outcomes, Value value) {
  std::vector<double> values;
  for (const Outcome& outcome : outcomes) values.push_back(value(outcome));
  return {mean(values), standard_error(values)};
}

}  // namespace

quant::TensorSettings settings_of_layer(const quant::Recipe& recipe) { return recipe.settings(kTensor); }

std::vector<MethodBound> study_bound(const LayerModel& model, std::span<const Method> methods,
                                     const BoundStudyOptions& options) {
  NIBBLE_REQUIRE(options.layers > 0, InvalidArgument, "a bound study needs layers, got 0");
  std::vector<quant::TensorSettings> settings;
  for (const Method& method : methods) settings.push_back(settings_of(method, model.columns));
  const std::uint64_t weights = static_cast<std::uint64_t>(model.rows) * model.columns;
  const std::uint64_t total = weights * options.layers * methods.size();
  std::uint64_t done = 0;
  std::vector<std::vector<Outcome>> outcomes(methods.size());
  const auto report = [&](std::string_view stage) {
    if (options.progress) options.progress({stage, static_cast<double>(done), static_cast<double>(total), "weights"});
  };
  for (std::size_t i = 0; i < options.layers; ++i) {
    report("drawing a layer");
    const Subject subject(make_layer(model, options.seed + i));
    for (std::size_t m = 0; m < methods.size(); ++m) {
      outcomes[m].push_back(outcome_of(methods[m], settings[m], subject));
      done += weights;
      report("quantizing");
    }
  }
  std::vector<MethodBound> results;
  for (std::size_t m = 0; m < methods.size(); ++m) {
    const std::span<const Outcome> of(outcomes[m]);
    MethodBound result;
    result.name = methods[m].name;
    result.bits_per_weight = over_layers(of, [](const Outcome& o) { return o.bits_per_weight; }).mean;
    result.error = over_layers(of, [](const Outcome& o) { return o.error; });
    result.bound = over_layers(of, [](const Outcome& o) { return o.bound; }).mean;
    result.decibels = over_layers(of, [](const Outcome& o) { return 10.0 * std::log10(o.error / o.bound); });
    result.bits = over_layers(of, [](const Outcome& o) { return o.bits_per_weight - o.needed_bits; });
    result.seconds =
        std::accumulate(of.begin(), of.end(), 0.0, [](double sum, const Outcome& o) { return sum + o.seconds; });
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace nibble::eval

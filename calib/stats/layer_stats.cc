#include "calib/stats/layer_stats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "core/error.h"

namespace nibble::calib {
namespace {

template <class T>
void check_values(std::span<const T> values, std::size_t expected, bool not_negative, std::string_view name,
                  const LayerStats& layer, std::string_view what) {
  NIBBLE_REQUIRE(values.size() == expected, FormatError, "{}: '{}' of layer '{}' has {} values, expected {}", what,
                 name, layer.module, values.size(), expected);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool fine = std::isfinite(values[i]) && !(not_negative && values[i] < T(0));
    NIBBLE_REQUIRE(fine, FormatError, "{}: '{}' of layer '{}' holds {} at index {}, expected a finite{} number", what,
                   name, layer.module, values[i], i, not_negative ? ", not negative" : "");
  }
}

void check_symmetric_sums(const Matrix<float>& sums, std::size_t extent, std::string_view name, const LayerStats& layer,
                          std::string_view what) {
  check_values(sums.values(), extent * extent, false, name, layer, what);
  for (std::size_t i = 0; i < extent; ++i) {
    NIBBLE_REQUIRE(sums(i, i) >= 0.0f, FormatError, "{}: '{}' of layer '{}' has a negative diagonal, {} at {}", what,
                   name, layer.module, sums(i, i), i);
  }
}

template <class From, class To>
void add_to(std::span<const From> from, std::span<To> to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] += static_cast<To>(from[i]);
}

Matrix<float> round_to_float(const Matrix<double>& from) {
  Matrix<float> to(from.rows(), from.cols());
  for (std::size_t i = 0; i < from.size(); ++i) to.data()[i] = static_cast<float>(from.data()[i]);
  return to;
}

}  // namespace

StatisticSet LayerStats::holds() const {
  return {.activations = !sum_x.empty(),
          .fisher = fisher.size() != 0,
          .hessian = sum_xxt.size() != 0,
          .guided_hessian = sum_s_xxt.size() != 0,
          .output_hessian = sum_dydyt.size() != 0};
}

void check_guide_sums(const LayerStats& layer, std::string_view what) {
  check_values(std::span(&layer.sum_s, 1), 1, true, "sum_s", layer, what);
  if (layer.sum_s2) check_values(std::span(&*layer.sum_s2, 1), 1, true, "sum_s2", layer, what);
}

void check_layer(const LayerStats& layer, std::string_view what) {
  NIBBLE_REQUIRE(is_valid_layer_name(layer.module), FormatError, "{}: '{}' cannot be the name of a layer", what,
                 layer.module);
  NIBBLE_REQUIRE(layer.out > 0 && layer.in > 0, FormatError, "{}: layer '{}' has the shape ({}, {})", what,
                 layer.module, layer.out, layer.in);
  const StatisticSet holds = layer.holds();
  if (holds.activations) {
    check_values<double>(layer.sum_x, layer.in, false, "sum_x", layer, what);
    check_values<double>(layer.sum_x2, layer.in, true, "sum_x2", layer, what);
    check_values<double>(layer.sum_abs_x, layer.in, true, "sum_abs_x", layer, what);
    check_values<float>(layer.min_x, layer.in, false, "min_x", layer, what);
    check_values<float>(layer.max_x, layer.in, false, "max_x", layer, what);
    for (std::size_t i = 0; i < layer.in; ++i) {
      NIBBLE_REQUIRE(layer.min_x[i] <= layer.max_x[i], FormatError, "{}: layer '{}' has min_x {} above max_x {} at {}",
                     what, layer.module, layer.min_x[i], layer.max_x[i], i);
    }
  }
  if (holds.fisher) check_values(layer.fisher.values(), layer.out * layer.in, true, "fisher", layer, what);
  if (holds.hessian) check_symmetric_sums(layer.sum_xxt, layer.in, "sum_xxt", layer, what);
  if (holds.guided_hessian) {
    check_guide_sums(layer, what);
    check_values<double>(layer.sum_s_x, layer.in, false, "sum_s_x", layer, what);
    check_symmetric_sums(layer.sum_s_xxt, layer.in, "sum_s_xxt", layer, what);
  }
  if (holds.output_hessian) check_symmetric_sums(layer.sum_dydyt, layer.out, "sum_dydyt", layer, what);
}

bool is_valid_layer_name(std::string_view name) {
  const bool printable = std::all_of(name.begin(), name.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte != 0x7f;
  });
  return !name.empty() && name.size() <= 512 && printable && name.find('/') == std::string_view::npos && name != "." &&
         name != "..";
}

LayerSums::LayerSums(std::string layer_module, std::size_t layer_out, std::size_t layer_in, const StatisticSet& set)
    : module(std::move(layer_module)), out(layer_out), in(layer_in), what(set) {
  if (what.activations) {
    sum_x.resize(in);
    sum_x2.resize(in);
    sum_abs_x.resize(in);
    min_x.assign(in, std::numeric_limits<float>::infinity());
    max_x.assign(in, -std::numeric_limits<float>::infinity());
  }
  if (what.fisher) fisher = Matrix<double>(out, in);
  if (what.hessian) sum_xxt = Matrix<double>(in, in);
  if (what.guided_hessian) {
    sum_s_x.resize(in);
    sum_s_xxt = Matrix<double>(in, in);
  }
  if (what.output_hessian) sum_dydyt = Matrix<double>(out, out);
}

void LayerSums::add(const LayerStats& other) {
  NIBBLE_REQUIRE(other.module == module && other.out == out && other.in == in && other.holds() == what, InvalidArgument,
                 "merge: layer '{}' ({}, {}) with {} does not fit layer '{}' ({}, {}) with {}", other.module, other.out,
                 other.in, to_text(other.holds()), module, out, in, to_text(what));
  tokens += other.tokens;
  samples += other.samples;
  add_to<double, double>(other.sum_x, sum_x);
  add_to<double, double>(other.sum_x2, sum_x2);
  add_to<double, double>(other.sum_abs_x, sum_abs_x);
  for (std::size_t i = 0; i < other.min_x.size() && other.tokens > 0; ++i) {  // of no token they are 0
    min_x[i] = std::min(min_x[i], other.min_x[i]);
    max_x[i] = std::max(max_x[i], other.max_x[i]);
  }
  add_to<float, double>(other.fisher.values(), fisher.values());
  add_to<float, double>(other.sum_xxt.values(), sum_xxt.values());
  sum_s += other.sum_s;
  sum_s2 = sum_s2 && other.sum_s2 ? std::optional(*sum_s2 + *other.sum_s2) : std::nullopt;
  add_to<double, double>(other.sum_s_x, sum_s_x);
  add_to<float, double>(other.sum_s_xxt.values(), sum_s_xxt.values());
  add_to<float, double>(other.sum_dydyt.values(), sum_dydyt.values());
}

LayerStats LayerSums::rounded() const {
  return {.module = module,
          .out = out,
          .in = in,
          .tokens = tokens,
          .samples = samples,
          .input_of = input_of,
          .sum_x = sum_x,
          .sum_x2 = sum_x2,
          .sum_abs_x = sum_abs_x,
          .min_x = tokens > 0 ? min_x : std::vector<float>(min_x.size()),
          .max_x = tokens > 0 ? max_x : std::vector<float>(max_x.size()),
          .fisher = round_to_float(fisher),
          .sum_xxt = round_to_float(sum_xxt),
          .sum_s = sum_s,
          .sum_s2 = what.guided_hessian ? sum_s2 : std::nullopt,
          .sum_s_x = sum_s_x,
          .sum_s_xxt = round_to_float(sum_s_xxt),
          .sum_dydyt = round_to_float(sum_dydyt)};
}

}  // namespace nibble::calib

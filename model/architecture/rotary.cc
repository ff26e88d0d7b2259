#include "model/architecture/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace nibble::model {
namespace {

double llama3_frequency(double frequency, const RotaryScaling& scaling) {
  const double context = static_cast<double>(scaling.original_context);
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  if (wavelength < context / scaling.high_frequency_factor) return frequency;
  if (wavelength > context / scaling.low_frequency_factor) return frequency / scaling.factor;
  const double keep = (context / wavelength - scaling.low_frequency_factor) /
                      (scaling.high_frequency_factor - scaling.low_frequency_factor);
  return (1.0 - keep) * frequency / scaling.factor + keep * frequency;
}

// The pair that turns `rotations` times over the original context, as a real number.
double pair_of_rotations(const RotarySpec& spec, double rotations) {
  const double context = static_cast<double>(spec.scaling.original_context);
  return static_cast<double>(spec.dims) * std::log(context / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(spec.base));
}

// 1 where a pair turns too fast to need stretching, 0 where it is stretched by the whole factor.
std::vector<double> yarn_keep(const RotarySpec& spec) {
  double low = pair_of_rotations(spec, spec.scaling.beta_fast), high = pair_of_rotations(spec, spec.scaling.beta_slow);
  if (spec.scaling.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(spec.dims) - 1.0);
  if (low == high) high += 0.001;
  std::vector<double> keep(spec.dims / 2);
  for (std::size_t i = 0; i < keep.size(); ++i)
    keep[i] = 1.0 - std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
  return keep;
}

double dynamic_base(const RotarySpec& spec, std::size_t length) {
  const double context = static_cast<double>(spec.scaling.original_context), dims = static_cast<double>(spec.dims);
  const double reach = std::max(static_cast<double>(length), context);
  return spec.base * std::pow(spec.scaling.factor * reach / context - (spec.scaling.factor - 1.0), dims / (dims - 2.0));
}

}  // namespace

std::vector<double> rotary_frequencies(const RotarySpec& spec, std::size_t length) {
  using Kind = RotaryScaling::Kind;
  const RotaryScaling& scaling = spec.scaling;
  const double base = scaling.kind == Kind::kDynamic ? dynamic_base(spec, length) : spec.base;
  const std::vector<double> keep = scaling.kind == Kind::kYarn ? yarn_keep(spec) : std::vector<double>{};
  std::vector<double> frequencies(spec.dims / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    double& frequency = frequencies[i];
    frequency = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(spec.dims));
    switch (scaling.kind) {
      case Kind::kNone:
      case Kind::kDynamic:
        break;
      case Kind::kLinear:
        frequency /= scaling.factor;
        break;
      case Kind::kLlama3:
        frequency = llama3_frequency(frequency, scaling);
        break;
      case Kind::kYarn:
        frequency = frequency / scaling.factor * (1.0 - keep[i]) + frequency * keep[i];
        break;
      case Kind::kLongRope:
        frequency /= length > scaling.original_context ? scaling.long_factors[i] : scaling.short_factors[i];
        break;
    }
    if (spec.backwards) frequency = -frequency;
  }
  return frequencies;
}

bool same_frequencies(const RotarySpec& spec, std::size_t length, std::size_t other) {
  const std::size_t context = spec.scaling.original_context;
  switch (spec.scaling.kind) {
    case RotaryScaling::Kind::kDynamic:
      return std::max(length, context) == std::max(other, context);
    case RotaryScaling::Kind::kLongRope:
      return (length > context) == (other > context);
    default:
      return true;
  }
}

}  // namespace nibble::model

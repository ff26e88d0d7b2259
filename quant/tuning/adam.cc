#include "quant/tuning/adam.h"

#include <cmath>

#include "core/error.h"

namespace nibble::quant {

void Adam::step(double rate, std::span<const double> gradient, std::span<const float> units, std::span<float> values) {
  constexpr double kFirst = 0.9, kSecond = 0.99, kTiny = 1e-12;
  NIBBLE_REQUIRE(gradient.size() == first_.size() && units.size() == first_.size() && values.size() == first_.size(),
                 InvalidArgument, "Adam: expected {} gradients, units and values, got {}, {} and {}", first_.size(),
                 gradient.size(), units.size(), values.size());
  steps_ += 1.0;
  const double first_share = 1.0 - std::pow(kFirst, steps_), second_share = 1.0 - std::pow(kSecond, steps_);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double unit = static_cast<double>(units[i]), g = unit * gradient[i];
    const double first = kFirst * static_cast<double>(first_[i]) + (1.0 - kFirst) * g;
    const double second = kSecond * static_cast<double>(second_[i]) + (1.0 - kSecond) * g * g;
    first_[i] = static_cast<float>(first), second_[i] = static_cast<float>(second);
    const double move = first / first_share / (std::sqrt(second / second_share) + kTiny);
    values[i] = static_cast<float>(static_cast<double>(values[i]) - unit * rate * move);
  }
}

}  // namespace nibble::quant

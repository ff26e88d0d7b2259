#include "eval/bound/water_filling.h"

#include <algorithm>
#include <boost/math/special_functions/beta.hpp>
#include <boost/math/special_functions/digamma.hpp>
#include <cmath>
#include <numbers>
#include <numeric>

#include "core/error.h"

namespace nibble::eval {
namespace {

double sum_of(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

void check_variances(const std::vector<double>& values) {
  for (const double value : values)
    NIBBLE_REQUIRE(std::isfinite(value) && value >= 0.0, InvalidArgument,
                   "water filling: a variance must be a finite number that is not negative, got {}", value);
  NIBBLE_REQUIRE(sum_of(values) > 0.0, InvalidArgument, "water filling: expected a variance above 0, got none");
}

}  // namespace

WaterFilling::WaterFilling(std::vector<double> a, std::vector<double> b)
    : a_(std::move(a)), b_(std::move(b)), components_(static_cast<double>(a_.size()) * static_cast<double>(b_.size())) {
  check_variances(a_);
  check_variances(b_);
  std::erase(a_, 0.0);  // components that are known: neither bits nor errors
  std::erase(b_, 0.0);
  std::sort(b_.begin(), b_.end());
  b_sum_.assign(b_.size() + 1, 0.0);
  b_logs_.assign(b_.size() + 1, 0.0);
  for (std::size_t k = 0; k < b_.size(); ++k) b_sum_[k + 1] = b_sum_[k] + b_[k];
  for (std::size_t k = b_.size(); k-- > 0;) b_logs_[k] = b_logs_[k + 1] + std::log(b_[k]);
}

double WaterFilling::variance() const { return sum_of(a_) * sum_of(b_) / components_; }

WaterFilling::Point WaterFilling::at(double log_level) const {
  const double level = std::exp(log_level);
  Point point;
  for (const double a : a_) {
    const auto below = static_cast<std::size_t>(std::lower_bound(b_.begin(), b_.end(), level / a) - b_.begin());
    const auto above = static_cast<double>(b_.size() - below);
    point.distortion += a * b_sum_[below] + above * level;
    point.bits += 0.5 * (b_logs_[below] + above * (std::log(a) - log_level)) / std::numbers::ln2;
  }
  return {point.bits / components_, point.distortion / components_};
}

double WaterFilling::distortion(double bits) const {
  // The lowest level: where even the smallest component has these bits.
  const double smallest = std::log(*std::min_element(a_.begin(), a_.end())) + std::log(b_.front());
  double high = std::log(*std::max_element(a_.begin(), a_.end())) + std::log(b_.back());
  double low = smallest - 2.0 * std::numbers::ln2 * bits * components_ / static_cast<double>(a_.size() * b_.size());
  for (int step = 0; step < 100; ++step) {
    const double middle = 0.5 * (low + high);
    (at(middle).bits > bits ? low : high) = middle;
  }
  return at(0.5 * (low + high)).distortion;
}

double WaterFilling::bits(double mean_squared_error) const {
  if (mean_squared_error >= variance()) return 0.0;
  double high = std::log(*std::max_element(a_.begin(), a_.end())) + std::log(b_.back());
  double low = std::min(high, std::log(mean_squared_error));  // D is at most the level
  for (int step = 0; step < 100; ++step) {
    const double middle = 0.5 * (low + high);
    (at(middle).distortion < mean_squared_error ? low : high) = middle;
  }
  return at(0.5 * (low + high)).bits;
}

double entropy_power_of_student_t(double degrees) {
  using boost::math::digamma;
  const double half = 0.5 * (degrees + 1.0);
  const double entropy = half * (digamma(half) - digamma(0.5 * degrees)) +
                         std::log(std::sqrt(degrees) * boost::math::beta(0.5 * degrees, 0.5));
  return std::exp(2.0 * entropy) / (2.0 * std::numbers::pi * std::numbers::e) * (degrees - 2.0) / degrees;
}

}  // namespace nibble::eval

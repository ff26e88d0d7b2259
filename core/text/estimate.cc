#include "core/text/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace nibble {
namespace {

std::string with_error(std::string text, double error, int digits) {
  if (!std::isnan(error)) text += fmt::format(" ± {:.{}f}", error, digits);
  return text;
}

}  // namespace

int decimals_beside(double error, int least) {
  constexpr int kMost = 12;
  if (!(error > 0.0) || std::isinf(error)) return least;
  return std::clamp(static_cast<int>(std::ceil(-std::log10(error))), least, std::max(least, kMost));
}

std::string estimate_text(double value, double error, int least) {
  const int digits = decimals_beside(error, least);
  return with_error(fmt::format("{:.{}f}", value, digits), error, digits);
}

std::string signed_estimate_text(double value, double error, int least) {
  const int digits = decimals_beside(error, least);
  return with_error(signed_number(value, digits), error, digits);
}

std::string signed_number(double value, int digits) {
  const std::string text = fmt::format("{:+.{}f}", value, digits);
  return text.starts_with('-') ? "−" + text.substr(1) : text;
}

}  // namespace nibble

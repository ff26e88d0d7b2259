#include "quant/tensor/error_kernels.h"

#include "core/machine/isa.h"

namespace nibble::quant::error_kernels {

void add_squares_scalar(const float* w, const float* approximations, std::size_t count, Lanes& lanes) {
  for (std::size_t j = 0; j < count; j += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double value = static_cast<double>(w[j + lane]);
      const double difference = value - static_cast<double>(approximations[j + lane]);
      lanes.error[lane] += difference * difference;
      lanes.norm[lane] += value * value;
    }
  }
}

Squares squares(const float* w, const float* approximations, std::size_t count) {
  static const auto add_squares = choose_variant(add_squares_scalar, NIBBLE_AVX2_VARIANT(add_squares_avx2),
                                                 NIBBLE_AVX512_VARIANT(add_squares_avx512));
  Lanes lanes{};
  const std::size_t whole = count / kLanes * kLanes;
  add_squares(w, approximations, whole, lanes);
  for (std::size_t j = whole; j < count; ++j) {
    const double value = static_cast<double>(w[j]), difference = value - static_cast<double>(approximations[j]);
    lanes.error[j - whole] += difference * difference;
    lanes.norm[j - whole] += value * value;
  }
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) {
      lanes.error[lane] += lanes.error[lane + half];
      lanes.norm[lane] += lanes.norm[lane + half];
    }
  }
  return {lanes.error[0], lanes.norm[0]};
}

}  // namespace nibble::quant::error_kernels

#include "eval/quality/log_sum_exp.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/machine/isa.h"
#include "eval/quality/log_sum_exp_kernels.h"

namespace nibble::eval {
namespace {

void max_and_sum_exp_scalar(const float* values, std::size_t count, float* max, double* sum) {
  *max = *std::max_element(values, values + count);
  *sum = 0.0;
  for (std::size_t i = 0; i < count; ++i) *sum += std::exp(static_cast<double>(values[i]) - static_cast<double>(*max));
}

}  // namespace

double log_sum_exp(std::span<const float> values) {
  static const auto kernel = choose_variant(max_and_sum_exp_scalar, NIBBLE_AVX2_VARIANT(kernels::max_and_sum_exp_avx2),
                                            NIBBLE_AVX512_VARIANT(kernels::max_and_sum_exp_avx512),
                                            NIBBLE_NEON_VARIANT(kernels::max_and_sum_exp_neon));
  if (values.empty()) return -std::numeric_limits<double>::infinity();
  float max = 0.0f;
  double sum = 0.0;
  kernel(values.data(), values.size(), &max, &sum);
  return static_cast<double>(max) + std::log(sum);
}

}  // namespace nibble::eval

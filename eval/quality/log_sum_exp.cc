#include "eval/quality/log_sum_exp.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/isa.h"
#include "eval/quality/log_sum_exp_kernels.h"

namespace nibble::eval {
namespace {

using Kernel = void (*)(const float*, std::size_t, float*, double*);

void max_and_sum_exp_scalar(const float* values, std::size_t count, float* max, double* sum) {
  *max = *std::max_element(values, values + count);
  *sum = 0.0;
  for (std::size_t i = 0; i < count; ++i) *sum += std::exp(static_cast<double>(values[i]) - static_cast<double>(*max));
}

Kernel choose_kernel() {
#ifdef NIBBLE_HAVE_X86_AVX512
  if (active_isa() == Isa::kAvx512) return kernels::max_and_sum_exp_avx512;
#endif
#ifdef NIBBLE_HAVE_X86_AVX2
  if (active_isa() >= Isa::kAvx2) return kernels::max_and_sum_exp_avx2;
#endif
  return max_and_sum_exp_scalar;
}

}  // namespace

double log_sum_exp(std::span<const float> values) {
  static const Kernel kernel = choose_kernel();
  if (values.empty()) return -std::numeric_limits<double>::infinity();
  float max = 0.0f;
  double sum = 0.0;
  kernel(values.data(), values.size(), &max, &sum);
  return static_cast<double>(max) + std::log(sum);
}

}  // namespace nibble::eval

#pragma once

#include <cstddef>

// Per instruction set: *max = the largest value and *sum = Σ exp(x_i - max) in double, for count > 0 values. A NaN may
// be passed over by *max, but makes *sum NaN.
namespace nibble::eval::kernels {

void max_and_sum_exp_avx2(const float* values, std::size_t count, float* max, double* sum);
void max_and_sum_exp_avx512(const float* values, std::size_t count, float* max, double* sum);

}  // namespace nibble::eval::kernels

#pragma once

#include <cstddef>

// Per instruction set: *max = the largest value and *sum = Σ exp(x_i - max) in double, for count > 0 values. A NaN may
// be passed over by *max, but makes *sum NaN.
namespace nibble::eval::kernels {

void max_and_sum_exp_avx2(const float* values, std::size_t count, float* max, double* sum);
void max_and_sum_exp_avx512(const float* values, std::size_t count, float* max, double* sum);
void max_and_sum_exp_neon(const float* values, std::size_t count, float* max, double* sum);

/// Of two rows p and q of logits: maxima, Σ exp(p_i - max_p), Σ exp(q_i - max_q) and Σ exp(p_i - max_p) (p_i - q_i),
/// where terms of weight 0 count nothing. sum_q has the bits of max_and_sum_exp of q.
struct SoftmaxSums {
  float max_p = 0.0f, max_q = 0.0f;
  double sum_p = 0.0, sum_q = 0.0, weighted_difference = 0.0;
};
void softmax_sums_avx2(const float* p, const float* q, std::size_t count, SoftmaxSums* sums);
void softmax_sums_avx512(const float* p, const float* q, std::size_t count, SoftmaxSums* sums);
void softmax_sums_neon(const float* p, const float* q, std::size_t count, SoftmaxSums* sums);

}  // namespace nibble::eval::kernels

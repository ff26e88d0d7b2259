#include "eval/quality/softmax_comparison.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/machine/isa.h"
#include "eval/quality/log_sum_exp_kernels.h"

namespace nibble::eval {
namespace {

using kernels::SoftmaxSums;

void softmax_sums_scalar(const float* p, const float* q, std::size_t count, SoftmaxSums* sums) {
  *sums = {*std::max_element(p, p + count), *std::max_element(q, q + count), 0.0, 0.0, 0.0};
  for (std::size_t i = 0; i < count; ++i) {
    const double x = static_cast<double>(p[i]), y = static_cast<double>(q[i]);
    const double weight = std::exp(x - static_cast<double>(sums->max_p));
    sums->sum_p += weight;
    sums->sum_q += std::exp(y - static_cast<double>(sums->max_q));
    if (weight != 0.0) sums->weighted_difference += weight * (x - y);
  }
}

// Whether the first index where `p` is at its maximum is the first one where `q` is.
bool same_first_maximum(std::span<const float> p, float max_p, std::span<const float> q, float max_q) {
  for (std::size_t i = 0; i < p.size(); ++i)
    if (p[i] == max_p || q[i] == max_q) return p[i] == max_p && q[i] == max_q;
  return false;  // NaN
}

}  // namespace

SoftmaxComparison compare_softmax(std::span<const float> reference, std::span<const float> logits) {
  static const auto kernel = choose_variant(softmax_sums_scalar, NIBBLE_AVX2_VARIANT(kernels::softmax_sums_avx2),
                                            NIBBLE_AVX512_VARIANT(kernels::softmax_sums_avx512),
                                            NIBBLE_NEON_VARIANT(kernels::softmax_sums_neon));
  NIBBLE_REQUIRE(!logits.empty() && reference.size() == logits.size(), InvalidArgument,
                 "comparing logits: expected two rows of one length, got {} and {} values", reference.size(),
                 logits.size());
  SoftmaxSums sums;
  kernel(reference.data(), logits.data(), logits.size(), &sums);
  SoftmaxComparison result;
  result.reference_log_sum = static_cast<double>(sums.max_p) + std::log(sums.sum_p);
  result.log_sum = static_cast<double>(sums.max_q) + std::log(sums.sum_q);
  const double divergence = sums.weighted_difference / sums.sum_p - (result.reference_log_sum - result.log_sum);
  result.divergence = divergence < 0.0 ? 0.0 : divergence;  // rounding; a NaN stays
  result.same_top = same_first_maximum(reference, sums.max_p, logits, sums.max_q);
  return result;
}

}  // namespace nibble::eval

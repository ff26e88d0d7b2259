#pragma once

#include <cstddef>
#include <span>

namespace nibble::eval {

/// Two rows of logits over the same vocabulary, as distributions p = softmax(reference) and q = softmax(logits).
struct SoftmaxComparison {
  double divergence = 0.0;         ///< KL(p‖q) = Σ p_i ln(p_i / q_i), in nats; never below 0
  double reference_log_sum = 0.0;  ///< ln Σ exp(reference_i): -ln p_t is this minus reference_t
  double log_sum = 0.0;            ///< the same bits as log_sum_exp(logits)
  bool same_top = false;           ///< both have their largest logit at the same index, the first of equals
};

/// Compares two rows in one pass for the maxima and one for the sums, in double, at the widest instruction set.
///
/// KL(p‖q) = Σ p_i (reference_i - logits_i) - (reference_log_sum - log_sum), absolute error below 1e-13 (1 + largest
/// difference of the logits); exactly 0 for equal rows. Where p_i is 0 (or underflows), nothing is added; where q_i is
/// 0 and p_i is not, the result is +inf. NaN or +inf among the logits give NaN. Cost: about 1.5 ns per entry of the
/// vocabulary (AVX-512). Throws InvalidArgument unless both have the same number of values, at least one.
SoftmaxComparison compare_softmax(std::span<const float> reference, std::span<const float> logits);

}  // namespace nibble::eval

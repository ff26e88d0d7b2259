#pragma once

#include <span>

namespace nibble::quant {

/// The divergence of a student's distribution q = softmax(student) from a teacher's p = softmax(teacher), and its
/// gradient:
///
///   KL(p ‖ q) = Σ_k p_k (ln p_k − ln q_k)   in nats,      d KL / d student_k = q_k − p_k
///
/// `student` and `teacher` (vocabulary) are logits; `student` becomes weight · (q − p), `teacher` becomes p. Returns
/// KL, summed in double. Requires equal sizes, not 0. Source: Hinton et al., arXiv:1503.02531, at temperature 1.
double distil_row(std::span<float> student, std::span<float> teacher, float weight);

/// The loss of the token that follows, −ln q_target in nats, in the same form: `student` becomes weight · (q −
/// e_target). Requires target < student.size().
double next_token_row(std::span<float> student, std::size_t target, float weight);

}  // namespace nibble::quant

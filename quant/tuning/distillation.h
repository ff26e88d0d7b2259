#pragma once

#include <cstddef>
#include <span>

#include "core/matrix/matrix_view.h"
#include "model/transformer/transformer.h"

namespace nibble::quant {

/// The divergence of a student's distribution q = softmax(student) from a teacher's p = softmax(teacher), and its
/// gradient:
///
///   KL(p ‖ q) = Σ_k p_k (ln p_k − ln q_k)   in nats,      d KL / d student_k = q_k − p_k
///
/// `student` and `teacher` (vocabulary) are logits; `student` becomes weight · (q − p), `teacher` becomes p. Returns
/// KL, summed in double. Requires equal sizes, not 0. Source: Hinton et al., arXiv:1503.02531, at temperature 1.
double distil_row(std::span<float> student, std::span<float> teacher, float weight);

/// distil_row() for the rows `chunk` (ascending) of a batch: `student` (chunk.size(), vocabulary) are their logits, the
/// teacher's come from its head over its last hidden `states` (rows, hidden). losses[row] becomes KL. To be called from
/// the head of another model than `teacher`.
void distil_rows(const model::Model& teacher, MatrixView<const float> states, std::span<const std::size_t> chunk,
                 float weight, MatrixView<float> student, std::span<double> losses);

/// The loss of the token that follows, −ln q_target in nats, in the same form: `student` becomes weight · (q −
/// e_target). Requires target < student.size().
double next_token_row(std::span<float> student, std::size_t target, float weight);

}  // namespace nibble::quant

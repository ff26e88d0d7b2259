#include "quant/tuning/distillation.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "model/transformer/row_ops.h"

namespace nibble::quant {

double distil_row(std::span<float> student, std::span<float> teacher, float weight) {
  const std::size_t n = student.size();
  NIBBLE_REQUIRE(n > 0 && teacher.size() == n, InvalidArgument, "distillation: {} logits against {}", n,
                 teacher.size());
  // KL = ln Z_q − ln Z_p + Σ p (t − s): differences of logits first, so that nothing cancels when q is close to p.
  thread_local std::vector<float> difference;
  difference.resize(n);
  for (std::size_t k = 0; k < n; ++k) difference[k] = teacher[k] - student[k];
  const double teacher_sum = model::softmax_row(teacher.data(), n), student_sum = model::softmax_row(student.data(), n);
  double mean_difference = 0.0;
  for (std::size_t k = 0; k < n; ++k) {
    mean_difference += static_cast<double>(teacher[k]) * static_cast<double>(difference[k]);
    student[k] = weight * (student[k] - teacher[k]);
  }
  return student_sum - teacher_sum + mean_difference;
}

void distil_rows(const model::Model& teacher, MatrixView<const float> states, std::span<const std::size_t> chunk,
                 float weight, MatrixView<float> student, std::span<double> losses) {
  teacher.forward_head(states, chunk, [&](std::span<const std::size_t> rows, MatrixView<const float> logits) {
    const auto offset = static_cast<std::size_t>(std::lower_bound(chunk.begin(), chunk.end(), rows[0]) - chunk.begin());
    parallel_for(rows.size(), [&](std::size_t i) {
      thread_local std::vector<float> p;
      p.assign(logits.row(i).begin(), logits.row(i).end());
      losses[rows[i]] = distil_row(student.row(offset + i), p, weight);
    });
  });
}

double next_token_row(std::span<float> student, std::size_t target, float weight) {
  NIBBLE_REQUIRE(target < student.size(), InvalidArgument, "tuning: token {} of a vocabulary of {}", target,
                 student.size());
  const double target_logit = static_cast<double>(student[target]);
  const double log_sum = model::softmax_row(student.data(), student.size());
  student[target] -= 1.0f;
  for (float& value : student) value *= weight;
  return log_sum - target_logit;
}

}  // namespace nibble::quant

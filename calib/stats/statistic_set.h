#pragma once

#include <string>
#include <string_view>

namespace nibble::calib {

/// Which statistics a run collects, a file holds or a reader wants.
struct StatisticSet {
  bool activations = false;     ///< sum_x, sum_x2, sum_abs_x, min_x, max_x
  bool fisher = false;          ///< fisher
  bool hessian = false;         ///< sum_xxt
  bool guided_hessian = false;  ///< sum_s, sum_s2, sum_s_x, sum_s_xxt
  bool output_hessian = false;  ///< sum_dydyt, of the layers of the blocks

  bool operator==(const StatisticSet&) const = default;
  bool includes(const StatisticSet& other) const {
    return (activations || !other.activations) && (fisher || !other.fisher) && (hessian || !other.hessian) &&
           (guided_hessian || !other.guided_hessian) && (output_hessian || !other.output_hessian);
  }
  /// Whether tokens weigh in any of them by the run's Guide.
  bool is_guided() const { return guided_hessian || output_hessian; }
  /// Whether collecting them needs the backward pass.
  bool needs_gradients() const { return fisher || guided_hessian || output_hessian; }
};

/// All that is in one or the other.
StatisticSet either(const StatisticSet& a, const StatisticSet& b);

/// "activations,fisher" and the like. Throws InvalidArgument for an unknown name (with the nearest one) or an empty
/// list.
StatisticSet parse_statistic_set(std::string_view text);
std::string to_text(const StatisticSet& set);

}  // namespace nibble::calib

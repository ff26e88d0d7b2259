#include "quant/algo/segmentation_kernels.h"

#include <algorithm>
#include <limits>

namespace nibble::quant::segmentation_kernels {

void best_cuts_scalar(const double* weight, const double* moment, const double* previous, double least_weight,
                      std::size_t row, std::size_t first, std::size_t last, double* gain, std::int32_t* cut) {
  for (std::size_t r = row; r < row + kRows; ++r) {
    double best = -std::numeric_limits<double>::infinity();
    std::size_t best_cut = first;
    for (std::size_t i = first; i <= std::min(last, r); ++i) {
      const double s = moment[r] - moment[i];
      const double candidate = previous[i] + s * s / std::max(weight[r] - weight[i], least_weight);
      if (candidate > best) {
        best = candidate;
        best_cut = i;
      }
    }
    gain[r - row] = best;
    cut[r - row] = static_cast<std::int32_t>(best_cut);
  }
}

}  // namespace nibble::quant::segmentation_kernels

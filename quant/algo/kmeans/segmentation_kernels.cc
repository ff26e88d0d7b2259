#include "quant/algo/kmeans/segmentation_kernels.h"

#include <algorithm>
#include <limits>

#include "core/machine/isa.h"

namespace nibble::quant::segmentation_kernels {

void best_cuts_scalar(const Prefixes& sums, const double* previous, double least_weight, std::size_t row,
                      std::size_t first, std::size_t last, double* gain, std::int32_t* cut) {
  for (std::size_t r = row; r < row + kRows; ++r) {
    double best = -std::numeric_limits<double>::infinity();
    std::size_t best_cut = first;
    for (std::size_t i = first; i <= std::min(last, r); ++i) {
      const double s = (sums.moment_high[r] - sums.moment_high[i]) + (sums.moment_low[r] - sums.moment_low[i]);
      const double w = (sums.weight_high[r] - sums.weight_high[i]) + (sums.weight_low[r] - sums.weight_low[i]);
      const double candidate = previous[i] + s * s / std::max(w, least_weight);
      if (candidate > best) {
        best = candidate;
        best_cut = i;
      }
    }
    gain[r - row] = best;
    cut[r - row] = static_cast<std::int32_t>(best_cut);
  }
}

decltype(&best_cuts_scalar) active() {
  return choose_variant(best_cuts_scalar, NIBBLE_AVX2_VARIANT(best_cuts_avx2), NIBBLE_AVX512_VARIANT(best_cuts_avx512),
                        NIBBLE_NEON_VARIANT(best_cuts_neon));
}

}  // namespace nibble::quant::segmentation_kernels

#include "quant/algo/kmeans/segmentation_kernels.h"

#include <algorithm>
#include <limits>

#include "core/machine/isa.h"

namespace nibble::quant::segmentation_kernels {

void best_cuts_scalar(const Prefixes& sums, double least_weight, double price, std::size_t first, std::size_t last,
                      std::size_t row, double* best, std::int32_t* cut) {
  for (std::size_t r = row; r < row + kRows; ++r) {
    double most = -std::numeric_limits<double>::infinity();
    std::size_t most_cut = first;
    for (std::size_t i = first; i <= last; ++i) {
      const double s = (sums.moment_high[r] - sums.moment_high[i]) + (sums.moment_low[r] - sums.moment_low[i]);
      const double w = (sums.weight_high[r] - sums.weight_high[i]) + (sums.weight_low[r] - sums.weight_low[i]);
      const double candidate = best[i] + s * s / std::max(w, least_weight);
      if (candidate > most) {
        most = candidate;
        most_cut = i;
      }
    }
    best[r] = most - price;
    cut[r] = static_cast<std::int32_t>(most_cut);
  }
}

decltype(&best_cuts_scalar) active() {
  return choose_variant(best_cuts_scalar, NIBBLE_AVX2_VARIANT(best_cuts_avx2), NIBBLE_AVX512_VARIANT(best_cuts_avx512),
                        NIBBLE_NEON_VARIANT(best_cuts_neon));
}

}  // namespace nibble::quant::segmentation_kernels

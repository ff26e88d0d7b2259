#include "quant/algo/kmeans/segmentation_kernels.h"

#include <limits>

#include "core/machine/isa.h"

namespace nibble::quant::segmentation_kernels {

void best_cuts_scalar(const Prefixes& sums, double least_weight, double price, std::size_t first, std::size_t last,
                      std::size_t row, double* best, std::int32_t* cut) {
  for (std::size_t r = row; r < row + kRows; ++r) {
    double most = -std::numeric_limits<double>::infinity();
    std::size_t most_cut = first;
    for (std::size_t i = first; i <= last; ++i) {
      const double candidate = best[i] + gain_between(sums, i, r, least_weight);
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

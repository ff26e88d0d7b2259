#include <arm_neon.h>

#include "quant/algo/kmeans/segmentation_kernels.h"

namespace nibble::quant::segmentation_kernels {
namespace {

// Two rows. Cuts are carried as doubles: exact, and the same lanes as the gains.
struct Two {
  float64x2_t weight_high, weight_low, moment_high, moment_low, most, most_cut;

  Two(const Prefixes& sums, std::size_t row, std::size_t first)
      : weight_high(vld1q_f64(sums.weight_high + row)),
        weight_low(vld1q_f64(sums.weight_low + row)),
        moment_high(vld1q_f64(sums.moment_high + row)),
        moment_low(vld1q_f64(sums.moment_low + row)),
        most(vdupq_n_f64(-__builtin_inf())),
        most_cut(vdupq_n_f64(static_cast<double>(first))) {}

  void try_cut(const Prefixes& sums, float64x2_t least, double before, std::size_t i) {
    const float64x2_t w = vaddq_f64(vsubq_f64(weight_high, vdupq_n_f64(sums.weight_high[i])),
                                    vsubq_f64(weight_low, vdupq_n_f64(sums.weight_low[i])));
    const float64x2_t s = vaddq_f64(vsubq_f64(moment_high, vdupq_n_f64(sums.moment_high[i])),
                                    vsubq_f64(moment_low, vdupq_n_f64(sums.moment_low[i])));
    const float64x2_t candidate = vaddq_f64(vdupq_n_f64(before), vdivq_f64(vmulq_f64(s, s), vmaxnmq_f64(w, least)));
    const uint64x2_t better = vcgtq_f64(candidate, most);
    most = vbslq_f64(better, candidate, most);
    most_cut = vbslq_f64(better, vdupq_n_f64(static_cast<double>(i)), most_cut);
  }
};

// Four rows, so that one pair's division goes on beside the other's.
void best_cuts_of_four(const Prefixes& sums, double least_weight, double price, std::size_t first, std::size_t last,
                       std::size_t row, double* best, std::int32_t* cut) {
  const float64x2_t least = vdupq_n_f64(least_weight), prices = vdupq_n_f64(price);
  Two lower(sums, row, first), upper(sums, row + 2, first);
  for (std::size_t i = first; i <= last; ++i) {
    lower.try_cut(sums, least, best[i], i);
    upper.try_cut(sums, least, best[i], i);
  }
  vst1q_f64(best + row, vsubq_f64(lower.most, prices));
  vst1q_f64(best + row + 2, vsubq_f64(upper.most, prices));
  vst1q_s32(cut + row,
            vcombine_s32(vmovn_s64(vcvtq_s64_f64(lower.most_cut)), vmovn_s64(vcvtq_s64_f64(upper.most_cut))));
}

}  // namespace

void best_cuts_neon(const Prefixes& sums, double least_weight, double price, std::size_t first, std::size_t last,
                    std::size_t row, double* best, std::int32_t* cut) {
  for (std::size_t half = 0; half < kRows; half += 4)
    best_cuts_of_four(sums, least_weight, price, first, last, row + half, best, cut);
}

}  // namespace nibble::quant::segmentation_kernels

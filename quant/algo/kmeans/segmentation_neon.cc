#include <arm_neon.h>

#include "quant/algo/kmeans/segmentation_kernels.h"

namespace nibble::quant::segmentation_kernels {
namespace {

// Entries r, r + 1, r + 2, r + 3 of a prefix sum, and what they are more than one of them.
struct Four {
  float64x2_t low, high;
  explicit Four(const double* p) : low(vld1q_f64(p)), high(vld1q_f64(p + 2)) {}
};

// Four rows. Cuts are carried as doubles: exact, and the same lanes as the gains.
void best_cuts_of_four(const Prefixes& sums, const double* previous, double least_weight, std::size_t row,
                       std::size_t first, std::size_t last, double* gain, std::int32_t* cut) {
  const Four weight_high(sums.weight_high + row), weight_low(sums.weight_low + row);
  const Four moment_high(sums.moment_high + row), moment_low(sums.moment_low + row);
  const float64x2_t least = vdupq_n_f64(least_weight);
  const auto base = static_cast<double>(row);
  const double indices[4] = {base, base + 1.0, base + 2.0, base + 3.0};
  const Four row_index(indices);
  Four best(indices), best_cut(indices);
  best.low = best.high = vdupq_n_f64(-__builtin_inf());
  best_cut.low = best_cut.high = vdupq_n_f64(static_cast<double>(first));
  for (std::size_t i = first; i <= last && i < row + 4; ++i) {
    const float64x2_t wh = vdupq_n_f64(sums.weight_high[i]), wl = vdupq_n_f64(sums.weight_low[i]);
    const float64x2_t mh = vdupq_n_f64(sums.moment_high[i]), ml = vdupq_n_f64(sums.moment_low[i]);
    const float64x2_t before = vdupq_n_f64(previous[i]), index = vdupq_n_f64(static_cast<double>(i));
    const auto two = [&](float64x2_t weight_h, float64x2_t weight_l, float64x2_t moment_h, float64x2_t moment_l,
                         float64x2_t rows, float64x2_t& most, float64x2_t& most_cut) {
      const float64x2_t w = vaddq_f64(vsubq_f64(weight_h, wh), vsubq_f64(weight_l, wl));
      const float64x2_t s = vaddq_f64(vsubq_f64(moment_h, mh), vsubq_f64(moment_l, ml));
      const float64x2_t candidate = vaddq_f64(before, vdivq_f64(vmulq_f64(s, s), vmaxnmq_f64(w, least)));
      const uint64x2_t better = vandq_u64(vcgtq_f64(candidate, most), vcgeq_f64(rows, index));
      most = vbslq_f64(better, candidate, most);
      most_cut = vbslq_f64(better, index, most_cut);
    };
    two(weight_high.low, weight_low.low, moment_high.low, moment_low.low, row_index.low, best.low, best_cut.low);
    two(weight_high.high, weight_low.high, moment_high.high, moment_low.high, row_index.high, best.high, best_cut.high);
  }
  vst1q_f64(gain, best.low);
  vst1q_f64(gain + 2, best.high);
  vst1q_s32(cut, vcombine_s32(vmovn_s64(vcvtq_s64_f64(best_cut.low)), vmovn_s64(vcvtq_s64_f64(best_cut.high))));
}

}  // namespace

void best_cuts_neon(const Prefixes& sums, const double* previous, double least_weight, std::size_t row,
                    std::size_t first, std::size_t last, double* gain, std::int32_t* cut) {
  for (std::size_t half = 0; half < kRows; half += 4)
    best_cuts_of_four(sums, previous, least_weight, row + half, first, last, gain + half, cut + half);
}

}  // namespace nibble::quant::segmentation_kernels

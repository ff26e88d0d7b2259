#include "quant/algo/solve/codebook_update.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "core/machine/thread_pool.h"
#include "core/matrix/gemm.h"
#include "quant/algo/palettes/palette_rounding.h"
#include "quant/algo/solve/coupled_fit.h"
#include "quant/algo/solve/palette_rows.h"
#include "quant/algo/solve/palette_system.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kUpdateRowTile = 128;

/// Stores a palette rounded and, unless it is one of windows, sorted, and lets the codes of its rows follow.
template <class Code>
void store_rounded(std::span<const double> entries, DType dtype, std::size_t group, BasicPaletteWeight<Code>& weight) {
  const std::size_t k = entries.size();
  std::vector<float> rounded(k);
  std::transform(entries.begin(), entries.end(), rounded.begin(),
                 [](double entry) { return static_cast<float>(entry); });
  round_palette(rounded, dtype, group);
  if (weight.window_step > 0) {
    std::copy(rounded.begin(), rounded.end(), weight.palettes.row(group).begin());
    return;
  }
  std::vector<std::size_t> order(k);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rounded[a] < rounded[b]; });
  std::vector<Code> new_code(k);
  for (std::size_t c = 0; c < k; ++c) {
    weight.palettes(group, c) = rounded[order[c]];
    new_code[order[c]] = static_cast<Code>(c);
  }
  const std::size_t begin = group * rows_per_group(weight);
  const std::size_t end = std::min(begin + rows_per_group(weight), weight.codes.rows());
  for (std::size_t r = begin; r < end; ++r)
    for (Code& code : weight.codes.row(r)) code = new_code[code];
}

}  // namespace

template <class Code>
void update_palettes(MatrixView<const float> w, MatrixView<const float> h, DType palette_dtype,
                     BasicPaletteWeight<Code>& weight, MatrixView<const float> h_out, Matrix<float> slopes,
                     double least_step) {
  require_palettes(w, h, weight, h_out);
  const Matrix<double> entries = solve_palette_system(w, h, h_out, weight, std::move(slopes), least_step);
  for (std::size_t group = 0; group < entries.rows(); ++group)
    store_rounded<Code>(entries.row(group), palette_dtype, group, weight);
}

template <class Code>
void update_scales(MatrixView<const float> w, MatrixView<const float> h, BasicPaletteWeight<Code>& weight,
                   MatrixView<const float> h_out) {
  require_palettes(w, h, weight, h_out);
  if (!h_out.empty()) return CoupledFit(w, h, h_out).fit_scales(weight);
  weight.scales.resize(w.rows(), 1.0f);
  parallel_for_tiles(w.rows(), kUpdateRowTile, [&](std::size_t begin, std::size_t end) {
    Matrix<float> q(end - begin, w.cols()), product(end - begin, w.cols());
    for (std::size_t r = begin; r < end; ++r)
      for_coded(weight, r,
                [&](std::size_t c, Code code) { q(r - begin, c) = weight.palettes(r / rows_per_group(weight), code); });
    gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, q, h, 0.0f, product);
    for (std::size_t r = begin; r < end; ++r) {
      double along = 0.0, square = 0.0;
      for (std::size_t c = 0; c < w.cols(); ++c) {
        along += static_cast<double>(w(r, c)) * static_cast<double>(product(r - begin, c));
        square += static_cast<double>(q(r - begin, c)) * static_cast<double>(product(r - begin, c));
      }
      for_sparse(weight, r, [&](std::size_t c, float kept) {
        along -= static_cast<double>(kept) * static_cast<double>(product(r - begin, c));
      });
      if (square > 0.0) store_scale(along / square, weight.scales[r]);
    }
  });
}

template void update_palettes(MatrixView<const float>, MatrixView<const float>, DType, PaletteWeight&,
                              MatrixView<const float>, Matrix<float>, double);
template void update_palettes(MatrixView<const float>, MatrixView<const float>, DType, WindowedWeight&,
                              MatrixView<const float>, Matrix<float>, double);
template void update_scales(MatrixView<const float>, MatrixView<const float>, PaletteWeight&, MatrixView<const float>);
template void update_scales(MatrixView<const float>, MatrixView<const float>, WindowedWeight&, MatrixView<const float>);

}  // namespace nibble::quant

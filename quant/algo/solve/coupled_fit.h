#pragma once

#include "core/matrix/matrix_view.h"
#include "quant/algo/palettes/palette_weight.h"

namespace nibble::quant {

/// What follows from the palettes and codes of a weight under tr(H_O Δ H_I Δᵀ) (coupled_descent.h): the scales that are
/// best, and the slopes. With Q the entries of the codes, s the scales and T what is coded, W less the sparse values,
///
///   Δ = diag(s) Q − T,   slopes  H_I Δᵀ H_O = H_I Qᵀ diag(s) H_O − G,   G = H_I Tᵀ H_O,
///   best s:  (H_O ∘ (Q H_I Qᵀ)) s = diag(Q G),
///
/// where the slope along every row is 0. While no sparse value changes G stays, so that of products with the Hessians
/// only H_I Qᵀ and that with H_O are made anew, and half of Q (H_I Qᵀ), which is symmetric.
///
/// w (out, in); h (in, in) and h_out (out, out), symmetric; all must outlive it. Memory: 4 bytes per weight for G,
/// where nothing is sparse, 8 more while it works, and 4 m² for the scales' system. Threads: all; results do not depend
/// on their number.
class CoupledFit {
 public:
  CoupledFit(MatrixView<const float> w, MatrixView<const float> h, MatrixView<const float> h_out)
      : w_(w), h_(h), h_out_(h_out) {}

  /// The best scales, by conjugate gradients on their change from those of `weight` (or from ones), rounded to float16;
  /// rows of which nothing is known, or whose scale is not finite in float16 or 0, keep theirs.
  /// Cost: m·n² + m²·n/2 multiply-adds through gemm(), and once m·n² + m²·n for G.
  template <class Code>
  void fit_scales(BasicPaletteWeight<Code>& weight);

  /// coupled_slopes() of the errors of the stored weight, (in, out), after fit_scales() if `scales`. Cost: m²·n more
  /// than that; without scales m·n² + m²·n.
  template <class Code>
  [[nodiscard]] Matrix<float> slopes(BasicPaletteWeight<Code>& weight, bool scales);

 private:
  /// G.
  template <class Code>
  const Matrix<float>& target_slopes(const BasicPaletteWeight<Code>& weight);
  /// H_I Qᵀ (in, out), and with a `target` G the best scales on the way.
  template <class Code>
  Matrix<float> product_with_inputs(BasicPaletteWeight<Code>& weight, const Matrix<float>* target) const;

  MatrixView<const float> w_, h_, h_out_;
  Matrix<float> target_slopes_;  // G as it was needed last
};

}  // namespace nibble::quant

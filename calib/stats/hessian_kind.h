#pragma once

namespace nibble::calib {

/// Which quadratic form measures a layer's error (docs/recipe.md).
enum class HessianKind {
  kPlain,          ///< XᵀX / N
  kCentred,        ///< (XᵀX - N mu muᵀ) / N: what is left when the bias absorbs the mean error
  kGuided,         ///< Xᵀ diag(s) X / N, s_t the size of the gradient at the outputs (Guide in run_settings.h)
  kGuidedCentred,  ///< (Xᵀ diag(s) X - (sum s x)(sum s x)ᵀ / sum s) / N
};

constexpr bool is_guided(HessianKind kind) {
  return kind == HessianKind::kGuided || kind == HessianKind::kGuidedCentred;
}
constexpr bool is_centred(HessianKind kind) {
  return kind == HessianKind::kCentred || kind == HessianKind::kGuidedCentred;
}

}  // namespace nibble::calib

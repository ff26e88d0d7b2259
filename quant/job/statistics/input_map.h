#pragma once

#include <cstdint>
#include <vector>

#include "core/matrix/matrix_view.h"

namespace nibble::quant {

/// How the inputs x~ (in) that a layer gets behind quantized layers follow from those it has in the float model, x, on
/// the same tokens:
///
///   x~ - now = (1 - change)(x - then) + e,        E[e eᵀ] = rest
struct InputMap {
  Matrix<float> change, rest;          ///< (in, in)
  std::vector<double> then, now;       ///< (in): the means
  std::vector<std::uint8_t> constant;  ///< (in): 1 where x~ is the same for all tokens
};

/// What a guided Hessian is made of: E[s x xᵀ] (in, in) and the weighted mean E[s x] / E[s] (in); s is what a token
/// weighs.
struct GuidedProducts {
  Matrix<float> products;  ///< about the mean if `about_mean`
  std::vector<double> mean;
  bool about_mean = false;
  double weight = 0.0;  ///< E[s]
};

/// The same of x~ in place of x: about their means, H becomes (1 - change) H (1 - change)ᵀ + E[s] rest, as exact as e
/// is independent of s and x; symmetric as before, 0 of constant inputs, and to the bit what it was where nothing has
/// drifted or weighs anything. Cost: 2 in³ multiply-adds in float. Memory: 4 bytes an entry of H.
void carry(const InputMap& map, GuidedProducts& guided);

}  // namespace nibble::quant

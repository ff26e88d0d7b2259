#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace nibble::quant {

/// Adam (Kingma and Ba, arXiv:1412.6980) over values whose natural sizes differ: value i moves in multiples of
/// units[i].
///
///   g = units[i] · dL/dvalue_i,   m = β₁ m + (1 − β₁) g,   v = β₂ v + (1 − β₂) g²
///   value_i -= units[i] · rate · m̂ / (√v̂ + ε),   m̂ = m / (1 − β₁ᵗ),  v̂ = v / (1 − β₂ᵗ)
///
/// with β₁ = 0.9, β₂ = 0.99 (runs are some hundred steps), ε = 1e-12. A value whose gradient has always been 0 stays.
class Adam {
 public:
  explicit Adam(std::size_t values) : first_(values), second_(values) {}
  /// One step; all spans have as many entries. `rate` is the step in units.
  void step(double rate, std::span<const double> gradient, std::span<const float> units, std::span<float> values);

 private:
  std::vector<float> first_, second_;
  double steps_ = 0.0;
};

}  // namespace nibble::quant

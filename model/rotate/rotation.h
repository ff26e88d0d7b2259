#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nibble::model {

/// A random orthogonal matrix Q (width, width) that is quickly applied: random signs, then a Walsh-Hadamard transform
/// in blocks of m, the largest power of two that divides the width, then a random orthogonal matrix R (width/m,
/// width/m) across the blocks, so that every input reaches every output:
///
///     x Q = x · diag(±1) · (I ⊗ H_m / √m) · (R ⊗ I)
///
/// With `keeps_ones`, a reflection follows that carries the image of the vector of ones back: 1 Q = 1, so that x Q has
/// the mean of x, and what LayerNorm subtracts and divides by stays. Source  QuaRot (arXiv:2404.00456), SliceGPT
/// (arXiv:2401.15024); the reflection is Householder's. Cost    O(width (log m + width/m)) per vector; making it,
/// O((width/m)³). Threads: const calls may run concurrently.
class Rotation {
 public:
  /// The same width and seed give the same matrix everywhere. Throws InvalidArgument for width 0.
  Rotation(std::size_t width, std::uint64_t seed, bool keeps_ones = false);
  std::size_t width() const { return signs_.size(); }
  /// x becomes x Q. Requires x.size() == width().
  void apply(std::span<double> x) const;

 private:
  void apply_without_reflection(std::span<double> x) const;

  std::size_t block_ = 1;  ///< m
  std::vector<double> signs_;
  std::vector<double> across_;  ///< R, row-major; empty where there is one block
  std::vector<double> mirror_;  ///< unit vector w of I - 2 w wᵀ; empty for none
};

/// Rotations of neighbouring parts of a vector, one after the other: the residual stream is one part, the values of an
/// attention as many as it has heads. Empty: nothing is rotated.
using Parts = std::vector<const Rotation*>;

/// Each part of x by its own. Requires that the widths add up to x.size(), or no parts.
void rotate_parts(const Parts& parts, std::span<double> x);

}  // namespace nibble::model

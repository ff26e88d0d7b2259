#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/machine/large_buffer.h"
#include "quant/format/quantized_tensor.h"
#include "quant/recipe/settings.h"

namespace nibble::quant {

/// Weights per slice of a tensor whose rows are quantized slice by slice: what stays in the second-level cache as
/// float.
constexpr std::size_t kSliceWeights = std::size_t{1} << 17;

/// Slices' worth of weights from which a tensor that shares one palette is gone through slice by slice, a few times;
/// smaller ones are decoded once, and held.
constexpr std::size_t kHeldSlices = 128;

/// True for a palette that the whole tensor shares and nothing else that ties its rows together: no solver, scales,
/// vectors, windows, outliers, weights of Hessians (of which each row has its own).
bool one_palette(const TensorSettings& settings);

/// Rows per slice, at most `weights` weights but at least the rows that share a palette, of a tensor (rows, cols) whose
/// rows, or groups of rows, are quantized without a look at the others: the result does not depend on it. All rows
/// where that is not so: a scale for the tensor, a solver, scales, vectors, shares of outliers, weights of Hessians,
/// `fisher` sensitivities (which are normalised over the tensor, and larger than what slices would save), one palette
/// for a tensor of no more than kHeldSlices · `weights` weights.
std::size_t rows_per_slice(const TensorSettings& settings, std::size_t rows, std::size_t cols, bool fisher,
                           std::size_t weights = kSliceWeights);

/// The parts of a tensor, of which those of its rows come slice by slice.
class StackedParts {
 public:
  /// For `slices` slices in all, as large as the first one; with `only_codes` all else is the same in each, and kept
  /// once.
  StackedParts(std::size_t slices, bool only_codes) : slices_(slices), only_codes_(only_codes) {}
  /// The parts of the next rows; suffixes and dtypes as before, and shapes but for their first number.
  void append(const std::vector<TensorPart>& parts);
  /// All of them, once.
  std::vector<TensorPart> take();

 private:
  std::size_t slices_;
  bool only_codes_;
  std::vector<TensorPart> parts_;  // without bytes
  std::vector<LargeVector<std::byte>> bytes_;
};

}  // namespace nibble::quant

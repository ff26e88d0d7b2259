#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calib/stats/statistic_set.h"
#include "core/matrix/matrix_view.h"

namespace nibble::calib {

/// What calibration knows of one linear layer Y = X Wᵀ + b with W (out, in): sums and counts, never means, so that
/// runs merge. calib/stats/derived.h divides. Absent statistics are empty.
///
/// dY is the gradient of a window's loss L at Y; which loss, RunSettings::flavour says.
struct LayerStats {
  std::string module = {};  ///< model::Parameter::module: fused tensors are several layers, "h.0.attn.c_attn.q"
  std::size_t out = 0, in = 0;
  std::uint64_t tokens = 0;   ///< rows of X that were seen; of an expert, those that chose it
  std::uint64_t samples = 0;  ///< windows that were seen
  /// The layer whose input this one shares (k and v: q; up: gate), which then holds sum_xxt in the file; or empty.
  std::string input_of = {};

  std::vector<double> sum_x = {}, sum_x2 = {}, sum_abs_x = {};  ///< (in): sums over tokens of x, x², |x|
  std::vector<float> min_x = {}, max_x = {};                    ///< (in)
  Matrix<float> fisher = {};                                    ///< (out, in): sum of squared gradients
  Matrix<float> sum_xxt = {};                                   ///< (in, in): XᵀX
  double sum_s = 0.0;                 ///< guided Hessian: sum of s_t, the size of dY_t by the run's Guide
  std::optional<double> sum_s2 = {};  ///< sum of s_t²; the first files of version 2 lack it
  std::vector<double> sum_s_x = {};   ///< (in): sum of s_t x_t
  Matrix<float> sum_s_xxt = {};       ///< (in, in): sum of s_t x_t x_tᵀ
  Matrix<float> sum_dydyt = {};       ///< (out, out): dYᵀ diag(r) dY, r by the run's Guide

  /// What is not empty.
  StatisticSet holds() const;
};

/// Throws FormatError unless every array that is there has the layer's shape and values that such sums can have
/// (finite; squares, counts and diagonals not negative; min <= max). `what` names the source. Cost: one pass.
void check_layer(const LayerStats& layer, std::string_view what);
/// Of these, the sums of a guided Hessian's weights.
void check_guide_sums(const LayerStats& layer, std::string_view what);

/// True for a name that can be one link below /layers: not empty, no '/', not "." or "..", at most 512 bytes, no
/// control characters.
bool is_valid_layer_name(std::string_view name);

/// The same statistics while they are being summed: everything in double, rounded to LayerStats once.
/// Used by the collector for the current block and by merging for the current layer.
struct LayerSums {
  LayerSums() = default;
  /// All zero, with the arrays of `what` allocated. The matrices take 8·(out·in), twice 8·in² and 8·out² bytes.
  LayerSums(std::string module, std::size_t out, std::size_t in, const StatisticSet& what);

  /// Adds the sums of other windows of the same run. Counts add exactly; extremes of a part that no token reached are
  /// none. Throws InvalidArgument for another layer, shape or set of statistics.
  void add(const LayerStats& other);
  /// Rounds the matrices to float, each element once: relative error of an element at most 2^-24. The extremes of a
  /// layer that no token reached, infinite so far, become 0.
  LayerStats rounded() const;

  std::string module, input_of;
  std::size_t out = 0, in = 0;
  StatisticSet what;
  std::uint64_t tokens = 0, samples = 0;
  std::vector<double> sum_x, sum_x2, sum_abs_x;
  std::vector<float> min_x, max_x;
  Matrix<double> fisher, sum_xxt, sum_s_xxt, sum_dydyt;
  double sum_s = 0.0;
  std::optional<double> sum_s2 = 0.0;  ///< empty as soon as a part lacks it
  std::vector<double> sum_s_x;
};

}  // namespace nibble::calib

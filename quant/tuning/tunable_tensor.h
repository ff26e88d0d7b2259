#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/machine/large_buffer.h"
#include "core/matrix/matrix_view.h"
#include "quant/format/quantized_tensor.h"

namespace nibble::quant {

/// Which values of a quantized weight may move.
struct Tunables {
  bool palettes = true;
  bool scales = true;  ///< of rows and of blocks
  bool codes = false;  ///< of scalar palettes and integer blocks
};

/// A quantized weight whose palettes and scales are free: as float values that are rounded to the tensor's dtypes
/// wherever the weight is used. Its codes stay, or are free too: then each has a position u between codes, starts at
/// its code, moves against the sign of dL/du = G_ij s_i (entries ascend) and is rounded to the nearest code, straight
/// through (signed gradients as in AutoRound, arXiv:2309.05516).
///
/// With ŵ_ij = s_i · c_{g(i), q_ij} (palettes) or s_{i,b(j)} · (q_ij − z_{i,b(j)}) (blocks) and G = dL/dŴ (out, in):
///
///   dL/dc_{g,k} = Σ_{i in g} s_i Σ_{j: q_ij = k} G_ij,    dL/ds_i = Σ_j G_ij c_{g(i), q_ij},
///   dL/ds_{i,b} = Σ_{j in b} G_ij (q_ij − z_{i,b})
///
/// with c and s as rounded: the gradient passes the rounding as if it were not there (straight through).
class TunableTensor {
 public:
  TunableTensor(QuantizedTensor start, const Tunables& which);

  /// Whether codes of this kind can be free: not those of vectors, windows and block palettes.
  static bool codes_can_move(const TensorSpec& spec);

  std::size_t size() const { return values_.size(); }
  /// Palettes (where free), then scales (where free).
  std::span<float> values() { return values_; }
  std::span<const float> values() const { return values_; }
  /// The natural size of each value's changes: of palettes the root mean square of their entries, of scales their
  /// magnitude, or the root mean square of all where that is larger.
  std::span<const float> units() const { return units_; }
  /// The weight with the values as they are now, rounded (palette entries that crossed become equal, so that they
  /// ascend). Throws NumericalError for a value that its type cannot hold.
  std::shared_ptr<const QuantizedTensor> rounded() const;
  /// Where codes are free, their positions (rows · cols), else empty. Memory: 5 bytes a weight.
  std::span<const float> positions() const { return positions_; }
  /// Throws InvalidArgument unless there are as many as before.
  void set_positions(std::span<const float> positions);
  /// Positions move by `step` against the signs of the last gradient(), once: without another one they stay. They stay
  /// within the codes that there are.
  void move_codes(float step);
  /// gradient (size()) = dL/dvalues, for G = `weight_gradient` (out, in) at the weight `at`, what rounded() returned.
  /// Sums in double. Keeps the signs that move_codes() takes. Threads: all; results do not depend on their number.
  void gradient(const QuantizedTensor& at, MatrixView<const float> weight_gradient, std::span<double> gradient);

 private:
  CodeValues current() const;
  void keep_signs(std::size_t row, std::span<const float> scales, std::span<const float> g);
  void take_codes();

  QuantizedTensor start_;
  CodeValues fixed_;                                   // what start_ has
  std::size_t palette_values_ = 0, scale_values_ = 0;  // that are free
  std::vector<float> values_, units_;
  LargeVector<float> positions_;    // (rows, cols), empty where codes stay
  LargeVector<std::int8_t> signs_;  // of dL/du, likewise
};

}  // namespace nibble::quant

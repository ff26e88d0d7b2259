#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/matrix/matrix_view.h"
#include "quant/kernels/int8/int8_matvec.h"
#include "quant/kernels/packing/code_layout.h"
#include "quant/kernels/packing/line_vector.h"

namespace nibble::quant {

/// Activations as a kernel reads them: (tokens, stride) floats, inputs padded with zeros.
struct Activations {
  LineVector<float> values;
  std::vector<float> block_sums;  ///< (tokens, blocks of 32 inputs), if asked for
  std::size_t stride = 0;
};

/// x padded to `padded` inputs. With `by_lanes`, every 64 inputs are reordered as R = 1 panels need them: input
/// 4 l + b of the 64 goes to place 16 b + l (code_layout.h). `padded` is then a multiple of 64.
void arrange_activations(MatrixView<const float> x, std::size_t padded, bool by_lanes, bool with_sums,
                         Activations& arranged);

/// What quantize_halves() needs: blocks of 16 inputs, each followed by as many zeros.
struct QuantizedHalves {
  std::vector<float> x;
  std::vector<std::int8_t> values;
};

/// One vector of activations as int8 kernels read it.
struct QuantizedActivations {
  LineVector<std::int8_t> values;                ///< (padded inputs)
  LineVector<std::int8_t> magnitudes, negative;  ///< if asked for: |x8|; -1 where x8 < 0, else 0
  std::vector<float> scales;                     ///< (blocks)
  std::vector<std::int32_t> sums;                ///< (blocks) of values
  std::vector<std::int32_t> less;                ///< (blocks) of |x8| where x8 < 0; as the last two
  LineVector<float> lane_scales;                 ///< (padded inputs / 4) if asked for: the scale of each four values
  float total = 0.0f;                            ///< of what all values stand for
  float less_total = 0.0f;                       ///< sum over blocks of the scale times `less`
  std::vector<float> padded;                     ///< x, for the while
  QuantizedHalves halves;
};

/// What else than values, scales and sums is wanted.
struct ActivationsWish {
  std::size_t block = kBlockInputs;  ///< inputs that share a scale: 32 or 16
  bool lane_scales = false;
  bool apart = false;  ///< magnitudes, negative, less, less_total
};

/// x, zero from its end to `padded` inputs, a multiple of 32, by `quantize`.
void quantize_activations(std::span<const float> x, std::size_t padded, QuantizeActivations quantize,
                          const ActivationsWish& wish, QuantizedActivations& quantized);

/// `quantize` for blocks of 16 inputs: count / 16 scales and sums. `room` is for the while.
void quantize_halves(std::span<const float> x, QuantizeActivations quantize, std::int8_t* x8, float* scales,
                     std::int32_t* sums, QuantizedHalves& room);

}  // namespace nibble::quant

#pragma once

#include <string>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/checkpoint/checkpoint.h"
#include "quant/store/model_weights.h"

namespace nibble::quant {

/// How large a model is, counted from what is stored.
struct ModelSize {
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;  ///< of all tensors that are parameters or parts of them
  double bits_per_weight =
      0.0;  ///< over the linears of the blocks, all-in (added biases, and norms and biases made wider)
  double model_bits_per_weight = 0.0;  ///< bytes * 8 / parameters
  std::string method;                  ///< how the linears of the blocks are stored, if all alike, else "mixed"
};

/// Throws FormatError when a linear layer of the blocks is missing.
ModelSize measure_model(const model::Checkpoint& checkpoint, const model::Architecture& architecture,
                        const QuantizedWeights& quantized);

}  // namespace nibble::quant

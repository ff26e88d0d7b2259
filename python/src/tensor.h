#pragma once

#include <memory>
#include <string>
#include <vector>

#include "quant/format/quantized_tensor.h"

namespace nibble::python {

/// A quantized weight: of a checkpoint, whose mapped file it keeps open, or made a moment ago.
struct Tensor {
  std::shared_ptr<const quant::QuantizedTensor> stored;
  std::string format;                  ///< for people: "palette 4-bit tensor"
  std::vector<float> bias_correction;  ///< of quantize_tensor() with shifting
  double relative_error = 0.0, optimality_gap = 0.0;
};

}  // namespace nibble::python

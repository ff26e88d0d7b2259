#pragma once

#include <cstdint>
#include <filesystem>

#include "core/matrix/dtype.h"
#include "core/progress.h"
#include "model/rotate/rotated_weights.h"

namespace nibble::exporting {

struct RotateRequest {
  std::filesystem::path model, output;
  model::RotationOptions rotation = {};
  DType dtype = DType::kF32;  ///< of what is written
  bool overwrite = false;
  ProgressSink progress = {};
};

struct RotateResult {
  std::uint64_t bytes = 0;  ///< of tensors
  bool untied = false;      ///< the head was tied, and now has a matrix of its own
  std::size_t tokens = 0;   ///< of the random text that both models were given
  /// Largest difference of a logit on it, and the largest logit's magnitude.
  double largest_difference = 0.0, largest_logit = 0.0;
};

/// Writes the float checkpoint `model` in another basis (make_rotated_provider()) as an ordinary checkpoint of its
/// family. What was written is opened again and run beside the model before it gets its name: NumericalError unless
/// their logits agree as well as the rounding to `dtype` lets them. Throws InvalidArgument: networks that cannot be
/// rotated, by block and setting; quantized checkpoints; as OutputDirectory. Cost     one pass over the weights, (log m
/// + width/m) operations each (rotation.h). Memory: the largest matrix, 4 bytes
///          a weight, and both models mapped.
RotateResult rotate_checkpoint(const RotateRequest& request);

}  // namespace nibble::exporting

#pragma once

#include <map>
#include <string>

#include "model/checkpoint/safetensors_writer.h"
#include "quant/job/plan/plan.h"

namespace nibble::quant {

/// What the header of the output says of a copied tensor.
model::TensorDeclaration declaration(const CopyItem& item);

/// The floats that are written as float32 and were narrower: corrected biases, norms that inputs are scaled behind.
std::map<std::string, DType> widened_floats(const Plan& plan);

/// Throws NumericalError (tensor, index) where a value of a copied tensor is NaN or infinite.
void require_finite(const CopyItem& item, const model::Checkpoint& checkpoint);

/// Appends a copied tensor to `writer`, in pieces. Returns ||W - What||_F / ||W||_F of rounding it (0 if it is not
/// rounded). Throws NumericalError when the type it is rounded to cannot hold a value (tensor, index), FormatError.
/// Memory   a piece; of narrow floats that are stored (in, out), one matrix.
double append_copy(const CopyItem& item, const model::Checkpoint& checkpoint, model::SafetensorsWriter& writer);

}  // namespace nibble::quant

#pragma once

#include "model/checkpoint/safetensors_writer.h"
#include "quant/job/plan.h"

namespace nibble::quant {

/// What the header of the output says of a copied tensor.
model::TensorDeclaration declaration(const CopyItem& item);

/// Appends a copied tensor to `writer`, in pieces. Returns ||W - What||_F / ||W||_F of rounding it (0 if it is not
/// rounded). Throws NumericalError when float16 cannot hold a value (tensor, index), FormatError.
double append_copy(const CopyItem& item, const model::Checkpoint& checkpoint, model::SafetensorsWriter& writer);

}  // namespace nibble::quant

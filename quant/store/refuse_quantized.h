#pragma once

#include <string_view>

#include "model/checkpoint/checkpoint.h"

namespace nibble::quant {

/// Throws InvalidArgument for a checkpoint of this program's that is quantized, where `verb` ("quantize", "calibrate")
/// is for the float checkpoint it was made from. `what` names it: "checkpoint '…'". Narrow floats and blocks of other
/// programs pass: they are decoded. Throws FormatError for what this program does not read.
void refuse_quantized(const model::Checkpoint& checkpoint, std::string_view what, std::string_view verb);

}  // namespace nibble::quant

#pragma once

#include <filesystem>

#include "core/progress.h"

namespace nibble::quant {

/// Writes a quantized checkpoint, or one of narrow floats, as plain float16 safetensors in the Hugging Face layout
/// (GPT-2's q, k, v fused and transposed back), so that any other tool evaluates it; config.json loses its
/// quantization_config, and says so where biases were added. Decoded values that float16 cannot hold exactly are
/// rounded, half to even. Throws FormatError, InvalidArgument (output exists and !overwrite).
void export_dequantized(const std::filesystem::path& model, const std::filesystem::path& output, bool overwrite,
                        const ProgressSink& progress);

}  // namespace nibble::quant

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/progress.h"
#include "quant/pipeline/recipe.h"

namespace nibble::quant {

/// What happened to one tensor.
struct TensorResult {
  std::string name;    ///< checkpoint module name; GPT-2's c_attn appears as .q, .k, .v
  std::string format;  ///< "palette", "uniform", "int4-block", "float16"
  std::uint64_t weights = 0;
  std::uint64_t stored_bits = 0;  ///< everything stored for it: codes, palettes, scales, zeros, outliers, added bias
  double bits_per_weight = 0.0;
  double relative_weight_error = 0.0;  ///< ||W - What||_F / ||W||_F
  double optimality_gap = 0.0;  ///< palettes: certified relative gap of the k-means cost to its optimum; 0 = exact
  double seconds = 0.0;
};

struct QuantizeResult {
  std::vector<TensorResult> tensors;   ///< the quantized linears, in checkpoint order
  double bits_per_weight = 0.0;        ///< over the quantized linears, all-in
  double model_bits_per_weight = 0.0;  ///< tensor bytes * 8 of the written file over all parameters
  std::uint64_t file_bytes = 0;
};

struct QuantizeOptions {
  std::filesystem::path model;
  std::filesystem::path output;
  Recipe recipe;
  bool overwrite = false;  ///< replace an existing output directory
  ProgressSink progress;   ///< in weights
};

/// Quantizes a checkpoint: the one data flow behind `nibble quantize`. Several tensors at once on all threads; memory
/// stays near the largest few tensors. Output appears under its name only when complete. Throws FormatError,
/// InvalidArgument, NumericalError (NaN/Inf weight: tensor and first index).
QuantizeResult quantize_model(const QuantizeOptions& options);

}  // namespace nibble::quant

#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace nibble {
class JsonFields;
}

namespace nibble::quant {

/// What became of one tensor: a row of quantization.json, of shards and of the records of sweeps.
struct TensorFigures {
  std::string name;    ///< checkpoint module name; GPT-2's c_attn appears as .q, .k, .v
  std::string format;  ///< "palette", "uniform", "int4-block", "block-palette", "float16"
  std::uint64_t weights = 0;
  std::uint64_t stored_bits = 0;  ///< everything stored for it: codes, palettes, scales, zeros, outliers, added bias
  double bits_per_weight = 0.0;
  double relative_weight_error = 0.0;  ///< ||W - What||_F / ||W||_F
  /// Scalar palettes, before a solver changes them: certified relative gap of the k-means cost to its optimum; 0 =
  /// exact. 0 for all else, although palettes of vectors and of windows are local minima.
  double optimality_gap = 0.0;
  /// ||X (W - What)ᵀ||_F / ||X Wᵀ||_F over the calibration text, as the Hessian of hessian_kind() has it: X centred or
  /// its rows weighted where that one is; empty without Hessian statistics.
  std::optional<double> output_error;
  /// sum of F (W - What)², F the mean Fisher sensitivity: empty without Fisher statistics.
  std::optional<double> fisher_error;
};

/// An object with a member for each figure that is there, in the order above.
nlohmann::ordered_json json_of(const TensorFigures& figures);

/// Reads them back; members of other names are left alone. Throws FormatError naming what is missing or no such value.
TensorFigures parse_tensor_figures(const JsonFields& fields);

}  // namespace nibble::quant

#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace nibble::model {

/// What `quantization_config` of a config.json says of a checkpoint whose matrices are narrow floats with scales: float
/// input like any other, once decoded.
struct NarrowConfig {
  std::string method;                                ///< quant_method
  std::array<std::size_t, 2> scale_block{128, 128};  ///< rows and columns that share a scale where there is a grid
};

/// The quant_method of this program's own checkpoints.
inline constexpr std::string_view kOwnQuantMethod = "nibble";

/// Reads it; empty where config.json has none, or it is of kOwnQuantMethod. Understood are
///   mxfp4               FP4 in groups of 32 with E8M0 scales, as gpt-oss is published
///   fp8                 `weight_block_size` [rows, columns], or null: one scale for each row or for all
///   fbgemm_fp8          a scale for each row
///   compressed-tensors  `format` "float-quantized" or "naive-quantized" with weights of 8-bit floats
/// Throws FormatError for others by their name, and for values out of range; `what` names the source.
std::optional<NarrowConfig> parse_narrow_config(std::string_view config_text, std::string_view what);

/// Whether a config.json is of this program's own quantized checkpoints. Throws FormatError for one that is no JSON.
bool is_own_config(std::string_view config_text, std::string_view what);

}  // namespace nibble::model

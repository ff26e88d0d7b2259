#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "quant/format/quantized_tensor.h"
#include "quant/recipe/settings.h"

namespace nibble::quant {

/// How one weight of a quantized checkpoint is stored.
struct StoredTensor {
  Format format = Format::kPalette;  ///< not kFloat16: such weights are plain tensors
  TensorSpec spec;
};

/// For people: "palette 4-bit tensor", "int4-block 32", "uniform 3-bit row".
std::string storage_text(const StoredTensor& stored);

/// The layout that `settings` ask for, of a weight (rows, cols). Requires a format other than float16.
StoredTensor stored_tensor(const TensorSettings& settings, std::size_t rows, std::size_t cols);

/// `quantization_config` of config.json: what makes a checkpoint a quantized one.
struct QuantizationConfig {
  std::map<std::string, StoredTensor> tensors;        ///< by module name
  std::map<std::string, DType> widened = {};          ///< floats stored wider than they were, and what they were
  std::set<std::string> kept_biases = {};             ///< that the float checkpoint had, though no key asks for them
  std::string recipe;                                 ///< JSON
  std::string checkpoint_fingerprint;                 ///< of the float checkpoint
  std::vector<std::string> calibration_fingerprints;  ///< of the calibration files, in the order given; not read back
  double bits_per_weight = 0.0;                       ///< as written; never believed, counted again from the tensors
  double model_bits_per_weight = 0.0;
};

/// The version written and the only one read.
constexpr int kQuantizedFormatVersion = 1;

/// Reads it from a config.json (at most 1 Mi tensors); empty for a float checkpoint, narrow floats
/// (model/checkpoint/narrow_config.h) among them. `what` names the source. Throws FormatError: a quant_method that is
/// not read, another version, unknown or missing keys, values out of range.
std::optional<QuantizationConfig> parse_quantization_config(std::string_view config_text, std::string_view what);

/// config.json with a quantization_config added; everything else stays, in its order.
std::string with_quantization_config(std::string_view config_text, const QuantizationConfig& quantization);
/// config.json of the decoded model: without quantization_config, its torch_dtype that of floats of `dtype`, and with
/// the values of `flags`, which say what layers have biases.
std::string as_float_config(std::string_view config_text, DType dtype, const std::map<std::string, bool>& flags);

}  // namespace nibble::quant

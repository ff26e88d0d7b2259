#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/weights.h"
#include "model/transformer/transformer.h"
#include "quant/kernels/packed_linear.h"

namespace nibble::quant {

/// A model ready to run, float or quantized: what every evaluating command starts from.
struct LoadedModel {
  std::shared_ptr<const model::Checkpoint> checkpoint;
  model::Config config;
  std::unique_ptr<model::Model> transformer;
  double bits_per_weight = 0.0;  ///< of the block linears: all-in bits for quantized ones, 16 or 32 for float ones
  double model_bits_per_weight = 0.0;  ///< tensor bytes * 8 over all parameters
  std::vector<std::string> kernels;    ///< what multiplies, each name once
  std::uint64_t bytes_per_token = 0;   ///< weights that decoding a token reads, as they lie in memory; 0: unknown
  std::string method;  ///< "float16", "float32", "bfloat16", or a short spec such as "palette 4-bit tensor"
};

/// How the linear layers of a loaded model multiply.
struct LoadOptions {
  /// false: decode from the mapped file, tile by tile, whatever the number of tokens. true: rearrange quantized weights
  /// in memory once, here, for the packed kernels (quant/kernels), and read float ones where they lie: what decoding
  /// token by token wants. Formats without a packed layout decode as before.
  bool packed = false;
  Compute compute = Compute::kExact;  ///< with `packed`: the arithmetic of the products
};

/// Opens a checkpoint directory of either kind and builds the transformer. In exact mode, products use just the values
/// that the format defines. Throws FormatError.
LoadedModel load_model(const std::filesystem::path& directory, const LoadOptions& options = {});

/// The weights of a float or quantized checkpoint (which of the two, config.json says).
std::unique_ptr<model::WeightProvider> make_weight_provider(std::shared_ptr<const model::Checkpoint> checkpoint);

}  // namespace nibble::quant

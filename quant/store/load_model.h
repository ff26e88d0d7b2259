#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "model/transformer/transformer.h"
#include "quant/store/model_weights.h"

namespace nibble::quant {

/// A model ready to run, float or quantized: what every evaluating command starts from.
struct LoadedModel {
  std::shared_ptr<const model::Checkpoint> checkpoint;
  model::Architecture architecture;
  std::unique_ptr<model::Model> transformer;
  double bits_per_weight = 0.0;  ///< of the block linears: all-in bits for quantized ones, 16 or 32 for float ones
  double model_bits_per_weight = 0.0;      ///< tensor bytes * 8 over all parameters
  std::vector<std::string> kernels;        ///< what multiplies, each name once
  std::uint64_t bytes_per_token = 0;       ///< weights that decoding a token reads, as they lie in memory; 0: unknown
  std::uint64_t head_bytes_per_token = 0;  ///< the head's part of them; 0 where they are
  std::string method;  ///< "float16", "bfloat16", "mxfp4", …, or a short spec such as "palette 4-bit tensor"
};

/// Opens a checkpoint directory of either kind and builds the transformer. In exact mode, products use just the values
/// that the format defines. Throws FormatError.
LoadedModel load_model(const std::filesystem::path& directory, const LoadOptions& options = {});

/// The same of one that is open already: what its path leads to by now does not matter.
LoadedModel load_model(std::shared_ptr<const model::Checkpoint> checkpoint, const LoadOptions& options = {});

}  // namespace nibble::quant

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/progress.h"
#include "eval/inspect/value_statistics.h"
#include "model/architecture/architecture.h"

namespace nibble::eval {

/// One weight, bias or norm of a model; a quantized weight is one entry with all that is stored for it.
struct TensorDescription {
  std::string name;                  ///< full tensor name, "h.0.mlp.c_fc.weight"
  std::string storage;               ///< "F16", "palette 4-bit tensor", …
  std::vector<std::uint64_t> shape;  ///< as stored; (out, in) for quantized weights
  std::uint64_t weights = 0;         ///< values
  std::uint64_t bytes = 0;           ///< stored
  double bits_per_weight = 0.0;      ///< bytes * 8 / weights
  bool block_linear = false;         ///< counts towards bits_per_weight of the model
  ValueStatistics values;
};

struct ModelDescription {
  model::Architecture architecture;
  std::string
      summary;  ///< of the architecture, for people: "gpt2, 6 layers, width 384, 6 heads, vocabulary 8192, tied head"
  std::string method;                      ///< as LoadedModel::method
  std::string recipe;                      ///< canonical YAML of a quantized model, else empty
  std::vector<TensorDescription> tensors;  ///< in name order
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;             ///< of all tensors
  double bits_per_weight = 0.0;        ///< as LoadedModel::bits_per_weight
  double model_bits_per_weight = 0.0;  ///< as LoadedModel::model_bits_per_weight
};

/// Describes a float or quantized checkpoint: `nibble inspect`. Reads every weight once, in pieces, on all threads;
/// sums are made in double over fixed pieces, so the result does not depend on the number of threads. NaN and infinite
/// values are counted, not refused. Throws FormatError. Progress in weights.
ModelDescription describe_model(const std::filesystem::path& directory, const ProgressSink& progress = {});

}  // namespace nibble::eval

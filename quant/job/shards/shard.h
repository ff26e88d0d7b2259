#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/checkpoint/safetensors_writer.h"
#include "quant/format/quantized_tensor.h"
#include "quant/job/plan/result.h"
#include "quant/tensor/weight_parts.h"

namespace nibble::quant {

/// One finished weight on disk while the others are still in work: a safetensors file of its parts, with its figures
/// and a hash of the parts as metadata.
struct Shard {
  std::filesystem::path file;
  TensorResult result;
  std::vector<model::TensorDeclaration> tensors;  ///< in name order, full names: "h.0.mlp.c_fc.codes"
  std::vector<float> bias_correction;             ///< (out) of a shifted weight: goes into the bias, not the output
};

/// The figures of one weight as they are written to shards and quantization.json, and printed with --json. All but the
/// seconds are the same for the same job.
nlohmann::ordered_json figures_json(const TensorResult& result);

/// Writes what was made of the weight `result.name` to `file`, flushed or not, and renamed. Throws FormatError.
Shard write_shard(const std::filesystem::path& file, const TensorResult& result, WeightParts made,
                  Flush flush = Flush::kYes);

/// Reads back the description of a shard that an earlier run wrote (marked `resumed`); empty if there is none, or if it
/// is damaged.
std::optional<Shard> find_shard(const std::filesystem::path& file, const std::string& name);

/// The parts of a shard that the output gets, where they lie: mapped. Throws FormatError, also where their hash is not
/// that of what was written.
std::vector<TensorPart> shard_parts(const Shard& shard);

/// Appends the bytes of shard.tensors to `writer`, in their order. Throws as shard_parts().
void append_shard(const Shard& shard, model::SafetensorsWriter& writer);

}  // namespace nibble::quant

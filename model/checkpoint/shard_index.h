#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace nibble::model {

/// model.safetensors.index.json: which shard holds which tensor (tensor name -> file name in the same directory).
using ShardIndex = std::map<std::string, std::string>;

/// Reads an index. Throws FormatError for malformed JSON, duplicate names, an empty weight_map, and shard names that
/// are not plain file names (with a separator, "..", absolute).
ShardIndex read_shard_index(const std::filesystem::path& path);

}  // namespace nibble::model

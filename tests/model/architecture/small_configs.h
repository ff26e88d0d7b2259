#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/text/json.h"
#include "model/architecture/families.h"

namespace nibble::test {

using Json = nlohmann::json;

/// The keys that most families need, of a small model.
inline Json small(const char* model_type) {
  return {{"model_type", model_type}, {"vocab_size", 100},        {"hidden_size", 32},       {"intermediate_size", 48},
          {"num_hidden_layers", 4},   {"num_attention_heads", 4}, {"num_key_value_heads", 2}};
}

inline model::Architecture parse(const Json& json) {
  return model::parse_architecture(json.dump(), "config.json of 'toy'");
}

inline Json with(Json json, const char* key, Json value) {
  json[key] = std::move(value);
  return json;
}

using Windows = std::vector<std::size_t>;
inline Windows windows_of(const model::Architecture& architecture) {
  Windows windows;
  for (const model::BlockSpec& block : architecture.blocks) windows.push_back(block.attention.window);
  return windows;
}

inline const model::AttentionSpec& attention_of(const model::Architecture& architecture, std::size_t block = 0) {
  return architecture.blocks[block].attention;
}

}  // namespace nibble::test

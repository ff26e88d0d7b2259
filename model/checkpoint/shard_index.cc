#include "model/checkpoint/shard_index.h"

#include "core/error.h"
#include "core/files/output_file.h"
#include "core/text/excerpt.h"
#include "core/text/json.h"
#include "core/text/strict_json.h"
#include "model/checkpoint/safetensors_file.h"

namespace nibble::model {
namespace {

constexpr std::uint64_t kMaxIndexBytes = 32 << 20;  // 300,000 tensors; real ones have a few thousand

void check_shard_name(const std::string& shard, const std::string& tensor, const std::string& file) {
  const bool plain = !shard.empty() && shard != "." && shard != ".." && shard.size() <= 255 &&
                     shard.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  NIBBLE_REQUIRE(plain, FormatError,
                 "{}: tensor '{}' is said to be in '{}'; expected the plain name of a file in the same directory", file,
                 tensor, excerpt(shard));
}

}  // namespace

ShardIndex read_shard_index(const std::filesystem::path& path) {
  const std::string file = path.string();
  const nlohmann::json index = parse_strict_json(read_text_file(path, kMaxIndexBytes), file);
  NIBBLE_REQUIRE(index.is_object() && index.contains("weight_map") && index["weight_map"].is_object(), FormatError,
                 "{}: expected an object with an object 'weight_map' in it", file);
  ShardIndex shards;
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    check_tensor_name(tensor, file);
    NIBBLE_REQUIRE(shard.is_string(), FormatError, "{}: weight_map: the shard of tensor '{}' should be a string, is {}",
                   file, tensor, shard.type_name());
    shards.emplace(tensor, shard.get<std::string>());
    check_shard_name(shards.at(tensor), tensor, file);
  }
  NIBBLE_REQUIRE(!shards.empty(), FormatError, "{}: weight_map is empty", file);
  return shards;
}

}  // namespace nibble::model

#include "model/checkpoint/safetensors_writer.h"

#include <set>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/text/excerpt.h"
#include "core/text/json.h"
#include "model/checkpoint/safetensors_file.h"
#include "model/checkpoint/tensor_stream.h"

namespace nibble::model {
namespace {

constexpr std::size_t kDataAlignment = 8;

/// A JSON string literal. Throws InvalidArgument unless `text` is UTF-8.
std::string quoted(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw InvalidArgument(fmt::format("safetensors: '{}' is not UTF-8", excerpt(text)));
  }
}

std::string metadata_json(const std::map<std::string, std::string>& metadata) {
  std::string json;
  for (const auto& [key, value] : metadata)
    json += fmt::format("{}{}:{}", json.empty() ? "" : ",", quoted(key), quoted(value));
  return fmt::format("\"__metadata__\":{{{}}}", json);
}

/// Size and JSON, padded: what precedes the data. Fills `extents`.
std::string file_head(const std::vector<TensorDeclaration>& tensors, const std::map<std::string, std::string>& metadata,
                      std::vector<TensorExtent>& extents) {
  std::set<std::string_view> names;
  std::string json = "{";
  if (!metadata.empty()) json += metadata_json(metadata);
  std::uint64_t begin = 0;
  for (const TensorDeclaration& tensor : tensors) {
    NIBBLE_REQUIRE(is_valid_tensor_name(tensor.name) && tensor.name != "__metadata__", InvalidArgument,
                   "safetensors: no tensor can be named '{}'", excerpt(tensor.name));
    NIBBLE_REQUIRE(names.insert(tensor.name).second, InvalidArgument, "safetensors: tensor '{}' is declared twice",
                   tensor.name);
    const std::uint64_t bytes =
        checked_multiply(checked_element_count(tensor.shape, tensor.name), dtype_size(tensor.dtype), tensor.name);
    const std::uint64_t end = checked_add(begin, bytes, tensor.name);
    extents.push_back({tensor.name, end, end});
    json += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", json.size() > 1 ? "," : "",
                        quoted(tensor.name), dtype_name(tensor.dtype), fmt::join(tensor.shape, ","), begin, end);
    begin = end;
  }
  json += "}";
  json.append(divide_up(json.size(), kDataAlignment) * kDataAlignment - json.size(), ' ');
  NIBBLE_REQUIRE(json.size() <= kMaxSafetensorsHeader, InvalidArgument,
                 "safetensors: the header would have {} bytes, the limit is {}", json.size(), kMaxSafetensorsHeader);
  std::string head;
  for (unsigned shift = 0; shift < 64; shift += 8) head += static_cast<char>((json.size() >> shift) & 0xFF);
  return head + json;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path, const std::vector<TensorDeclaration>& tensors,
                                     const std::map<std::string, std::string>& metadata, Flush flush) {
  std::vector<TensorExtent> extents;
  const std::string head = file_head(tensors, metadata, extents);
  stream_ = std::make_unique<TensorStream>(std::move(path), head, std::move(extents), flush);
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::write(std::span<const std::byte> bytes) { stream_->write(bytes); }

void SafetensorsWriter::commit() { stream_->commit(); }

}  // namespace nibble::model

#include "model/checkpoint/safetensors_writer.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/output_file.h"
#include "model/checkpoint/safetensors_file.h"

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

/// Size and JSON, padded: what precedes the data. Fills `ends` with the end of each tensor in the data.
std::string file_head(const std::vector<TensorDeclaration>& tensors, const std::map<std::string, std::string>& metadata,
                      std::vector<std::uint64_t>& ends) {
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
    ends.push_back(checked_add(begin, bytes, tensor.name));
    json +=
        fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", json.size() > 1 ? "," : "",
                    quoted(tensor.name), dtype_name(tensor.dtype), fmt::join(tensor.shape, ","), begin, ends.back());
    begin = ends.back();
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

struct SafetensorsWriter::State {
  std::filesystem::path path;
  std::vector<TensorDeclaration> tensors;
  std::vector<std::uint64_t> ends;  // of each tensor, in the data
  std::size_t current = 0;          // the first tensor that is not complete
  std::uint64_t written = 0;        // bytes of data
  std::optional<OutputFile> file;

  void skip_complete() {
    while (current < ends.size() && ends[current] == written) ++current;
  }
};

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path, std::vector<TensorDeclaration> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : state_(std::make_unique<State>()) {
  state_->path = std::move(path);
  state_->tensors = std::move(tensors);
  const std::string head = file_head(state_->tensors, metadata, state_->ends);
  state_->file.emplace(state_->path);
  state_->file->write(head);
  state_->skip_complete();
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  State& state = *state_;
  NIBBLE_REQUIRE(state.current < state.ends.size(), InvalidArgument,
                 "writing '{}': {} bytes after the last declared tensor", state.path.string(), bytes.size());
  const std::uint64_t room = state.ends[state.current] - state.written;
  NIBBLE_REQUIRE(bytes.size() <= room, InvalidArgument,
                 "writing '{}': tensor '{}' has room for {} more bytes, got {}; a write must not cross into the next "
                 "tensor",
                 state.path.string(), state.tensors[state.current].name, room, bytes.size());
  state.file->write(bytes);
  state.written += bytes.size();
  state.skip_complete();
}

void SafetensorsWriter::commit() {
  State& state = *state_;
  NIBBLE_REQUIRE(state.current == state.ends.size(), InvalidArgument,
                 "writing '{}': tensor '{}' is incomplete: {} bytes are missing", state.path.string(),
                 state.tensors[state.current].name, state.ends[state.current] - state.written);
  state.file->commit();
}

}  // namespace nibble::model

#include "model/gguf/gguf_writer.h"

#include <bit>
#include <optional>
#include <set>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/output_file.h"
#include "model/checkpoint/safetensors_file.h"

namespace nibble::model {
namespace {

template <class T>
void append(std::string& head, T value) {
  static_assert(std::endian::native == std::endian::little);
  head.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_text(std::string& head, std::string_view text) {
  append<std::uint64_t>(head, text.size());
  head += text;
}

std::uint64_t aligned(std::uint64_t position, std::uint64_t alignment, std::string_view what) {
  return checked_multiply(divide_up(position, alignment), alignment, what);
}

std::uint64_t alignment_of(const GgufMetadata& metadata) {
  const std::uint64_t alignment = metadata.natural("general.alignment").value_or(kGgufDefaultAlignment);
  NIBBLE_REQUIRE(std::has_single_bit(alignment) && alignment <= kMaxGgufAlignment, InvalidArgument,
                 "writing GGUF: general.alignment should be a power of two up to {}, but is {}", kMaxGgufAlignment,
                 alignment);
  return alignment;
}

/// Bytes of one declared tensor, everything about it checked.
std::uint64_t check_declaration(const GgufDeclaration& tensor, std::set<std::string_view>& names) {
  NIBBLE_REQUIRE(is_valid_tensor_name(tensor.name) && tensor.name.size() <= kMaxGgufTensorName, InvalidArgument,
                 "writing GGUF: no tensor can be named '{}'; expected 1 to {} bytes", excerpt(tensor.name),
                 kMaxGgufTensorName);
  NIBBLE_REQUIRE(names.insert(tensor.name).second, InvalidArgument, "writing GGUF: tensor '{}' is declared twice",
                 tensor.name);
  NIBBLE_REQUIRE(tensor.shape.size() <= kMaxGgufDims, InvalidArgument,
                 "writing GGUF: tensor '{}' has {} dimensions; expected at most {}", tensor.name, tensor.shape.size(),
                 kMaxGgufDims);
  const BlockTypeInfo& type = block_type_info(tensor.type);
  const std::uint64_t cols = tensor.shape.empty() ? 1 : tensor.shape.back();
  NIBBLE_REQUIRE(cols % type.weights == 0, InvalidArgument,
                 "writing GGUF: tensor '{}' has rows of {} weights; {} needs a multiple of {}", tensor.name, cols,
                 type.name, type.weights);
  return gguf_tensor_bytes(type, tensor.shape, tensor.name);
}

}  // namespace

struct GgufWriter::State {
  struct Extent {
    std::uint64_t end = 0, padded_end = 0;  ///< in the data
  };

  std::filesystem::path path;
  std::vector<GgufDeclaration> tensors;
  std::vector<Extent> extents;
  std::size_t current = 0;    // the first tensor that is not complete
  std::uint64_t written = 0;  // bytes of data, padding included
  std::optional<OutputFile> file;

  std::string head(const GgufMetadata& metadata) {
    const std::uint64_t alignment = alignment_of(metadata);
    std::string head = "GGUF";
    append<std::uint32_t>(head, 3);
    append<std::uint64_t>(head, tensors.size());
    append<std::uint64_t>(head, metadata.items().size());
    for (const auto& [key, value] : metadata.items()) {
      NIBBLE_REQUIRE(!key.empty() && key.size() <= kMaxGgufKey, InvalidArgument,
                     "writing GGUF: a key of {} bytes; expected 1 to {}", key.size(), kMaxGgufKey);
      append_text(head, key);
      append(head, static_cast<std::uint32_t>(value.type()));
      value.append_to(head);
    }
    std::set<std::string_view> names;
    std::uint64_t begin = 0;
    for (const GgufDeclaration& tensor : tensors) {
      const std::uint64_t end = checked_add(begin, check_declaration(tensor, names), tensor.name);
      append_text(head, tensor.name);
      append(head, static_cast<std::uint32_t>(tensor.shape.size()));
      for (std::size_t i = tensor.shape.size(); i-- > 0;) append(head, tensor.shape[i]);
      append(head, static_cast<std::uint32_t>(tensor.type));
      append(head, begin);
      begin = aligned(end, alignment, tensor.name);
      extents.push_back({end, begin});
    }
    head.resize(aligned(head.size(), alignment, "the header"));
    return head;
  }

  /// Pads complete tensors and steps over them.
  void finish_complete() {
    for (; current < extents.size() && extents[current].end == written; ++current) {
      file->write(std::string(extents[current].padded_end - written, '\0'));
      written = extents[current].padded_end;
    }
  }
};

GgufWriter::GgufWriter(std::filesystem::path path, const GgufMetadata& metadata, std::vector<GgufDeclaration> tensors)
    : state_(std::make_unique<State>()) {
  state_->path = std::move(path);
  state_->tensors = std::move(tensors);
  const std::string head = state_->head(metadata);
  state_->file.emplace(state_->path);
  state_->file->write(head);
  state_->finish_complete();
}

GgufWriter::~GgufWriter() = default;

void GgufWriter::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  State& state = *state_;
  NIBBLE_REQUIRE(state.current < state.extents.size(), InvalidArgument,
                 "writing '{}': {} bytes after the last declared tensor", state.path.string(), bytes.size());
  const std::uint64_t room = state.extents[state.current].end - state.written;
  NIBBLE_REQUIRE(bytes.size() <= room, InvalidArgument,
                 "writing '{}': tensor '{}' has room for {} more bytes, got {}; a write must not cross into the next "
                 "tensor",
                 state.path.string(), state.tensors[state.current].name, room, bytes.size());
  state.file->write(bytes);
  state.written += bytes.size();
  state.finish_complete();
}

std::uint64_t GgufWriter::bytes_written() const { return state_->file->bytes_written(); }

void GgufWriter::commit() {
  State& state = *state_;
  NIBBLE_REQUIRE(state.current == state.extents.size(), InvalidArgument,
                 "writing '{}': tensor '{}' is incomplete: {} bytes are missing", state.path.string(),
                 state.tensors[state.current].name, state.extents[state.current].end - state.written);
  state.file->commit();
}

}  // namespace nibble::model

#include "model/gguf/gguf_writer.h"

#include <bit>
#include <set>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/text/excerpt.h"
#include "model/checkpoint/safetensors_file.h"
#include "model/checkpoint/tensor_stream.h"

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

/// All that precedes the data, padded. Fills `extents`.
std::string file_head(const GgufMetadata& metadata, const std::vector<GgufDeclaration>& tensors,
                      std::vector<TensorExtent>& extents) {
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
    extents.push_back({tensor.name, end, begin});
  }
  head.resize(aligned(head.size(), alignment, "the header"));
  return head;
}

}  // namespace

GgufWriter::GgufWriter(std::filesystem::path path, const GgufMetadata& metadata,
                       const std::vector<GgufDeclaration>& tensors) {
  std::vector<TensorExtent> extents;
  const std::string head = file_head(metadata, tensors, extents);
  stream_ = std::make_unique<TensorStream>(std::move(path), head, std::move(extents));
}

GgufWriter::~GgufWriter() = default;

void GgufWriter::write(std::span<const std::byte> bytes) { stream_->write(bytes); }

std::uint64_t GgufWriter::bytes_written() const { return stream_->bytes_written(); }

void GgufWriter::commit() { stream_->commit(); }

}  // namespace nibble::model

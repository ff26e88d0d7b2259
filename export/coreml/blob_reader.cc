#include "export/coreml/blob_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/checked_math.h"
#include "core/error.h"
#include "export/coreml/blob_writer.h"

namespace nibble::coreml {
namespace {

static_assert(std::endian::native == std::endian::little, "records are read where they lie");

template <class T>
T get(std::span<const std::byte> bytes, std::uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

unsigned bits_of_blob_type(std::uint32_t number) {
  for (const DataType type :
       {DataType::kFloat16, DataType::kFloat32, DataType::kUInt8, DataType::kInt8, DataType::kInt4, DataType::kUInt1,
        DataType::kUInt2, DataType::kUInt4, DataType::kUInt3, DataType::kUInt6, DataType::kInt32})
    if (blob_type(type) == number) return data_type_bits(type);
  return 0;
}

}  // namespace

BlobFile::BlobFile(const std::filesystem::path& path) : file_(std::make_unique<model::MappedFile>(path)) {
  const std::span<const std::byte> all = file_->bytes();
  const std::string where = path.string();
  NIBBLE_REQUIRE(all.size() >= kBlobAlignment, FormatError, "'{}': {} bytes are no blob file", where, all.size());
  const auto count = get<std::uint32_t>(all, 0);
  NIBBLE_REQUIRE(get<std::uint32_t>(all, 4) == kBlobVersion && all_zero(all.subspan(8, kBlobAlignment - 8)),
                 FormatError, "'{}' is not blob storage of version {}", where, kBlobVersion);
  std::uint64_t end = kBlobAlignment;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t at = divide_up(end, kBlobAlignment) * kBlobAlignment;
    NIBBLE_REQUIRE(at <= all.size() && all.size() - at >= kBlobAlignment, FormatError,
                   "'{}': blob {} of {} lies outside of the file's {} bytes", where, i, count, all.size());
    NIBBLE_REQUIRE(all_zero(all.subspan(end, at - end)), FormatError, "'{}': bytes between blobs at {}", where, end);
    const auto bytes = get<std::uint64_t>(all, at + 8), padding = get<std::uint64_t>(all, at + 24);
    const auto type = get<std::uint32_t>(all, at + 4);
    NIBBLE_REQUIRE(get<std::uint32_t>(all, at) == kBlobSentinel && all_zero(all.subspan(at + 32, 32)), FormatError,
                   "'{}': no record at {}", where, at);
    const unsigned bits = bits_of_blob_type(type);
    NIBBLE_REQUIRE(bits != 0, FormatError, "'{}': blob at {} has the unknown type {}", where, at, type);
    NIBBLE_REQUIRE(get<std::uint64_t>(all, at + 16) == at + kBlobAlignment && bytes <= all.size() - at - kBlobAlignment,
                   FormatError, "'{}': the data of the blob at {} lie outside of the file, or elsewhere", where, at);
    NIBBLE_REQUIRE(padding < 8 && padding <= bytes * 8 && (bytes * 8 - padding) % bits == 0, FormatError,
                   "'{}': blob at {}: {} unused bits in {} bytes of {}-bit elements", where, at, padding, bytes, bits);
    const auto data = all.subspan(at + kBlobAlignment, bytes);
    NIBBLE_REQUIRE(padding == 0 || std::to_integer<unsigned>(data.back()) >> (8 - padding) == 0, FormatError,
                   "'{}': blob at {}: unused bits are not zero", where, at);
    blobs_[at] = {type, (bytes * 8 - padding) / bits, data};
    end = at + kBlobAlignment + bytes;
  }
  NIBBLE_REQUIRE(end == all.size(), FormatError, "'{}': {} bytes behind its {} blobs", where, all.size() - end, count);
  file_->check_intact();
}

std::span<const std::byte> BlobFile::find(const TensorType& type, std::uint64_t offset) const {
  const auto found = blobs_.find(offset);
  NIBBLE_REQUIRE(found != blobs_.end(), FormatError, "'{}': no blob record at offset {}", file_->path().string(),
                 offset);
  NIBBLE_REQUIRE(found->second.type == blob_type(type.type) && found->second.elements == type.elements(), FormatError,
                 "'{}': the blob at offset {} has type {} and {} elements, expected {}", file_->path().string(), offset,
                 found->second.type, found->second.elements, type_text(type));
  return found->second.bytes;
}

}  // namespace nibble::coreml

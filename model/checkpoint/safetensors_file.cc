#include "model/checkpoint/safetensors_file.h"

#include <algorithm>
#include <utility>

#include "core/checked_math.h"
#include "core/error.h"
#include "model/checkpoint/safetensors_header.h"

namespace nibble::model {
namespace {

constexpr std::size_t kSizeBytes = 8;  // of the header's size

std::uint64_t read_u64(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return value;
}

/// The header's JSON, after checking its size against the file.
std::string_view header_json(std::span<const std::byte> bytes, std::string_view file) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  NIBBLE_REQUIRE(!text.starts_with("version https://git-lfs"), FormatError,
                 "safetensors: this is a Git LFS pointer, not the weights (file {}); fetch them with `git lfs pull`",
                 file);
  NIBBLE_REQUIRE(bytes.size() >= kSizeBytes, FormatError,
                 "safetensors: expected at least {} bytes, got {} (file {}). Incomplete download?", kSizeBytes,
                 bytes.size(), file);
  const std::uint64_t size = read_u64(bytes);
  NIBBLE_REQUIRE(size <= kMaxSafetensorsHeader, FormatError,
                 "safetensors: the header claims {} bytes, the limit is {} (file {}). Is this a safetensors file?",
                 size, kMaxSafetensorsHeader, file);
  NIBBLE_REQUIRE(size <= bytes.size() - kSizeBytes, FormatError,
                 "safetensors: the header claims {} bytes, but only {} follow (file {}). Incomplete download?", size,
                 bytes.size() - kSizeBytes, file);
  const std::string_view json = text.substr(kSizeBytes, size);
  NIBBLE_REQUIRE(json.starts_with('{'), FormatError,
                 "safetensors: the header does not start with '{{' (file {}). Is this a safetensors file?", file);
  return json;
}

/// product(shape) * dtype size. The text around an overflow is made only for it: a header can hold a million tensors.
std::uint64_t bytes_needed(const std::string& name, const HeaderEntry& entry, std::string_view file) {
  try {
    return checked_multiply(checked_element_count(entry.shape, name), dtype_size(entry.dtype), name);
  } catch (const FormatError& error) {
    throw FormatError(fmt::format("safetensors: the size of tensor {} (file {})", error.what(), file));
  }
}

/// Byte count against shape and dtype, and the end against the file.
void check_extent(const std::string& name, const HeaderEntry& entry, std::size_t data_bytes, std::string_view file) {
  NIBBLE_REQUIRE(entry.begin <= entry.end, FormatError,
                 "safetensors: tensor '{}' has data_offsets [{}, {}], which end before they begin (file {})", name,
                 entry.begin, entry.end, file);
  const std::uint64_t needed = bytes_needed(name, entry, file);
  NIBBLE_REQUIRE(needed == entry.end - entry.begin, FormatError,
                 "safetensors: tensor '{}' needs {} bytes for shape {} {}, but its data_offsets span {} (file {}). "
                 "Incomplete download?",
                 name, needed, shape_text(entry.shape), dtype_name(entry.dtype), entry.end - entry.begin, file);
  NIBBLE_REQUIRE(entry.end <= data_bytes, FormatError,
                 "safetensors: tensor '{}' ends at byte {} of the data, but the file has {} bytes of data (file {}). "
                 "Incomplete download?",
                 name, entry.end, data_bytes, file);
}

/// Each tensor must begin where the one before ended, and the last one end with the file.
void check_coverage(const SafetensorsHeader& header, std::size_t data_bytes, std::string_view file) {
  using Item = std::pair<const std::string, HeaderEntry>;
  std::vector<const Item*> order;
  order.reserve(header.tensors.size());
  for (const Item& item : header.tensors) order.push_back(&item);
  std::sort(order.begin(), order.end(), [](const Item* a, const Item* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  std::uint64_t covered = 0;
  std::string_view previous = "the header";
  for (const Item* item : order) {
    const auto& [name, entry] = *item;
    NIBBLE_REQUIRE(entry.begin >= covered, FormatError,
                   "safetensors: tensor '{}' begins at byte {} of the data, inside '{}', which ends at {} (file {})",
                   name, entry.begin, previous, covered, file);
    NIBBLE_REQUIRE(entry.begin == covered, FormatError,
                   "safetensors: a gap of {} bytes between '{}' and tensor '{}' (file {})", entry.begin - covered,
                   previous, name, file);
    covered = entry.end;
    previous = name;
  }
  NIBBLE_REQUIRE(covered == data_bytes, FormatError,
                 "safetensors: {} bytes after the last tensor belong to none (file {})", data_bytes - covered, file);
}

}  // namespace

SafetensorsContents parse_safetensors(std::span<const std::byte> bytes, std::string_view file) {
  const std::string_view json = header_json(bytes, file);
  const std::span<const std::byte> data = bytes.subspan(kSizeBytes + json.size());
  SafetensorsHeader header = parse_safetensors_header(json, file);
  for (const auto& [name, entry] : header.tensors) check_extent(name, entry, data.size(), file);
  check_coverage(header, data.size(), file);

  SafetensorsContents contents;
  contents.metadata = std::move(header.metadata);
  contents.tensors.reserve(header.tensors.size());
  for (auto& [name, entry] : header.tensors) {
    contents.tensors.push_back(
        {name, entry.dtype, std::move(entry.shape), data.subspan(entry.begin, entry.end - entry.begin)});
  }
  return contents;
}

}  // namespace nibble::model

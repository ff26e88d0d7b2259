#include "export/coreml/blob_writer.h"

#include <array>
#include <cstring>
#include <limits>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/files/hash.h"
#include "core/files/output_file.h"

namespace nibble::coreml {
namespace {

using Record = std::array<std::byte, kBlobAlignment>;

template <class T>
void put(Record& record, std::size_t offset, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i) record[offset + i] = static_cast<std::byte>(value >> (8 * i) & 0xFFu);
}

void pad_to_alignment(OutputFile& file) {
  const std::array<std::byte, kBlobAlignment> zeros{};
  const std::uint64_t beyond = file.bytes_written() % kBlobAlignment;
  if (beyond != 0) file.write(std::span(zeros).first(kBlobAlignment - beyond));
}

std::uint64_t aligned(std::uint64_t offset) {
  return checked_multiply(divide_up(offset, kBlobAlignment), kBlobAlignment, "weight.bin");
}

}  // namespace

std::uint32_t blob_type(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return 1;
    case DataType::kFloat32:
      return 2;
    case DataType::kUInt8:
      return 3;
    case DataType::kInt8:
      return 4;
    case DataType::kInt4:
      return 8;
    case DataType::kUInt1:
      return 9;
    case DataType::kUInt2:
      return 10;
    case DataType::kUInt4:
      return 11;
    case DataType::kUInt3:
      return 12;
    case DataType::kUInt6:
      return 13;
    case DataType::kInt32:
      return 14;
    case DataType::kBool:
    case DataType::kString:
      break;
  }
  throw InvalidArgument(fmt::format("weight.bin has no elements of {}", data_type_name(type)));
}

std::uint64_t blob_bytes(DataType type, std::uint64_t elements) {
  return divide_up(checked_multiply(elements, data_type_bits(type), "weight.bin"), 8);
}

std::uint64_t BlobPlan::add(DataType type, std::uint64_t elements, std::string label, Producer producer) {
  const std::uint64_t offset = aligned(end_), bytes = blob_bytes(type, elements);
  const auto padding = static_cast<unsigned>(bytes * 8 - elements * data_type_bits(type));
  static_cast<void>(blob_type(type));
  NIBBLE_REQUIRE(entries_.size() < std::numeric_limits<std::uint32_t>::max(), InvalidArgument, "too many blobs");
  entries_.push_back({type, bytes, offset, padding, std::move(label), std::move(producer)});
  end_ = checked_add(offset + kBlobAlignment, bytes, "weight.bin");
  return offset;
}

std::string BlobPlan::write(const std::filesystem::path& path, const ProgressSink& progress) const {
  OutputFile file(path);
  Hasher hasher;
  Record header{};
  put(header, 0, static_cast<std::uint32_t>(entries_.size()));
  put(header, 4, kBlobVersion);
  file.write(header);
  for (const Entry& entry : entries_) {
    pad_to_alignment(file);
    Record record{};
    put(record, 0, kBlobSentinel);
    put(record, 4, blob_type(entry.type));
    put(record, 8, entry.bytes);
    put(record, 16, entry.offset + kBlobAlignment);
    put(record, 24, std::uint64_t{entry.padding_bits});
    file.write(record);
    hasher.update(record);
    entry.producer([&](std::span<const std::byte> bytes) {
      file.write(bytes);
      hasher.update(bytes);
    });
    NIBBLE_REQUIRE(file.bytes_written() == entry.offset + kBlobAlignment + entry.bytes, FormatError,
                   "weight.bin: {} was to have {} bytes and has {}", entry.label, entry.bytes,
                   file.bytes_written() - entry.offset - kBlobAlignment);
    if (progress)
      progress({"exporting", static_cast<double>(file.bytes_written()), static_cast<double>(end_), "bytes"});
  }
  file.commit();
  return hasher.hex();
}

}  // namespace nibble::coreml

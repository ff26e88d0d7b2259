#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/progress.h"
#include "export/coreml/bit_stream.h"
#include "export/coreml/mil.h"

namespace nibble::coreml {

/// weight.bin, MIL's blob storage, version 2 (coremltools' StorageFormat.hpp). All integers little-endian.
///
/// A header of 64 bytes: number of blobs (u32), 2 (u32), zeros. Then each blob at a multiple of 64: a record of 64
/// bytes (0xDEADBEEF u32, type u32, bytes u64, offset of the data u64, unused bits of the last byte u64, zeros), the
/// data.
inline constexpr std::uint64_t kBlobAlignment = 64;
inline constexpr std::uint32_t kBlobVersion = 2, kBlobSentinel = 0xDEADBEEF;

/// The number that records have for an element type; they are not those of MIL.proto. Throws InvalidArgument for a
/// type that is never stored here.
std::uint32_t blob_type(DataType type);
/// Bytes of so many packed elements. Throws FormatError where that overflows.
std::uint64_t blob_bytes(DataType type, std::uint64_t elements);

/// What the file will hold. Sizes follow from types, so every offset is known before a byte is written: the program is
/// built first, then the file is written in one pass, with no more memory than a producer takes.
class BlobPlan {
 public:
  /// Hands the blob's bytes, exactly blob_bytes() of them, to the sink.
  using Producer = std::function<void(const ByteSink&)>;

  /// Offset of the blob's record: what BlobReference holds.
  std::uint64_t add(DataType type, std::uint64_t elements, std::string label, Producer producer);
  std::size_t blobs() const { return entries_.size(); }
  std::uint64_t file_bytes() const { return end_; }
  /// Writes the file; gives the hash of its content. Throws FormatError when it cannot be written, and what producers
  /// throw.
  std::string write(const std::filesystem::path& path, const ProgressSink& progress) const;

 private:
  struct Entry {
    DataType type;
    std::uint64_t bytes, offset;
    unsigned padding_bits;
    std::string label;
    Producer producer;
  };
  std::vector<Entry> entries_;
  std::uint64_t end_ = kBlobAlignment;
};

}  // namespace nibble::coreml

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>

#include "export/coreml/mil.h"
#include "model/checkpoint/mapped_file.h"

namespace nibble::coreml {

/// A weight.bin as it lies on disk (blob_writer.h), mapped. Opening walks all records and checks what readers rely on:
/// version, count, sentinels, known types, extents inside the file, alignment without gaps, unused bits, and that
/// paddings and reserved fields are zero. Throws FormatError naming the file and the record.
class BlobFile {
 public:
  explicit BlobFile(const std::filesystem::path& path);

  struct Blob {
    std::uint32_t type = 0;  ///< blob_type()
    std::uint64_t elements = 0;
    std::span<const std::byte> bytes;
  };
  /// By offset of the record.
  const std::map<std::uint64_t, Blob>& blobs() const { return blobs_; }
  /// The bytes of a constant of `type` at `offset`. Throws FormatError: no record there, another element type, another
  /// number of elements.
  std::span<const std::byte> find(const TensorType& type, std::uint64_t offset) const;
  void check_intact() const { file_->check_intact(); }
  void release(std::span<const std::byte> part) const { file_->release(part); }

 private:
  std::unique_ptr<model::MappedFile> file_;
  std::map<std::uint64_t, Blob> blobs_;
};

}  // namespace nibble::coreml

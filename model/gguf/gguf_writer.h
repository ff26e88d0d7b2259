#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/gguf/gguf_header.h"

namespace nibble::model {

class TensorStream;

/// A tensor to be written: what the header says of it.
struct GgufDeclaration {
  std::string name;
  BlockType type = BlockType::kF32;
  std::vector<std::uint64_t> shape;  ///< row-major; the file has it backwards
};

/// Writes one GGUF file (version 3), tensor after tensor, without holding them: all are declared first, then their
/// bytes follow in the same order, in pieces of any size. Each tensor is padded with zeros to the alignment, the last
/// one too, and begins where the one before ends, as llama.cpp demands. NAME.partial until commit()
/// (core/files/output_file.h). Memory: the header.
class GgufWriter {
 public:
  /// The alignment is `general.alignment` of `metadata`, else 32. Throws InvalidArgument for duplicate or impossible
  /// names (1 to 63 bytes), more than 4 dimensions, rows that are no whole number of blocks, a bad alignment;
  /// FormatError when the file cannot be created or the sizes overflow.
  GgufWriter(std::filesystem::path path, const GgufMetadata& metadata, const std::vector<GgufDeclaration>& tensors);
  ~GgufWriter();
  /// Appends to the current tensor; a complete one is padded and followed by the next. Throws InvalidArgument when it
  /// would exceed the bytes declared, FormatError when the disk says no.
  void write(std::span<const std::byte> bytes);
  std::uint64_t bytes_written() const;
  /// Throws InvalidArgument when a declared tensor is incomplete; FormatError when the disk says no.
  void commit();

 private:
  std::unique_ptr<TensorStream> stream_;
};

}  // namespace nibble::model

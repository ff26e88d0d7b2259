#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/files/output_file.h"
#include "core/matrix/dtype.h"

namespace nibble::model {

class TensorStream;

/// A tensor to be written: what the header says of it.
struct TensorDeclaration {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
};

/// Writes one safetensors file, tensor after tensor, without holding them: all are declared first (the header comes
/// first in the file), then their bytes follow in the same order, in pieces of any size. The header is padded with
/// spaces so that the data starts at a multiple of 8 bytes. NAME.partial until commit() (core/files/output_file.h).
class SafetensorsWriter {
 public:
  /// Throws InvalidArgument for duplicate or impossible names, FormatError when the file cannot be created or the sizes
  /// overflow.
  SafetensorsWriter(std::filesystem::path path, const std::vector<TensorDeclaration>& tensors,
                    const std::map<std::string, std::string>& metadata = {}, Flush flush = Flush::kYes);
  ~SafetensorsWriter();
  /// Appends to the current tensor; a complete one is followed by the next. Throws InvalidArgument when it would exceed
  /// the bytes declared, FormatError when the disk says no.
  void write(std::span<const std::byte> bytes);
  /// Throws InvalidArgument when a declared tensor is incomplete; FormatError when the disk says no.
  void commit();

 private:
  std::unique_ptr<TensorStream> stream_;
};

}  // namespace nibble::model

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/files/output_file.h"

namespace nibble::model {

/// Where one declared tensor ends in the data of a file; the next one begins at `padded_end`.
struct TensorExtent {
  std::string name;
  std::uint64_t end = 0, padded_end = 0;
};

/// The bytes of declared tensors, in order, behind a head: what the writers of checkpoint formats share. Zeros fill the
/// room between `end` and `padded_end`. The file has its final name only after commit().
class TensorStream {
 public:
  /// Creates the file and writes `head`. `extents` ascend from 0. Throws FormatError when it cannot be created.
  TensorStream(std::filesystem::path path, const std::string& head, std::vector<TensorExtent> extents,
               Flush flush = Flush::kYes);

  /// The next bytes of the current tensor. Throws InvalidArgument when they cross its end, FormatError when the
  /// disk says no.
  void write(std::span<const std::byte> bytes);

  /// Gives the file its final name. Throws InvalidArgument when a tensor is incomplete, FormatError when the
  /// disk says no.
  void commit();

  /// Bytes of the file so far, head and padding included.
  std::uint64_t bytes_written() const { return file_.bytes_written(); }

 private:
  void finish_complete();

  std::filesystem::path path_;
  std::vector<TensorExtent> extents_;
  std::size_t current_ = 0;    // the first tensor that is not complete
  std::uint64_t written_ = 0;  // bytes of data, padding included
  OutputFile file_;
};

}  // namespace nibble::model

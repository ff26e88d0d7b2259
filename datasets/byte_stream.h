#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace nibble::datasets {

/// Throws FormatError for what is missing, or cannot be read again from its front, as pipes cannot.
void require_regular_file(const std::filesystem::path& path);

/// Reads a file from front to back in bounded memory; .gz and .zst (by extension; several members or frames are one
/// text) are decompressed on the way. Files are taken for hostile: what was cut off, is corrupt, or expands more than
/// kLargestExpansion times is an error, never a shorter text.
class ByteStream {
 public:
  /// Text seldom compresses better than 20 : 1; a file may expand beyond this only within its first 64 MiB.
  static constexpr std::uint64_t kLargestExpansion = 256;

  /// Throws FormatError when the file cannot be opened, or is not a regular file.
  explicit ByteStream(std::filesystem::path path);
  ~ByteStream();
  ByteStream(ByteStream&&) noexcept;
  ByteStream& operator=(ByteStream&&) noexcept;

  /// Fills `buffer` from its start and returns how many bytes; 0 only at the end. Throws FormatError with the path.
  std::size_t read(std::span<char> buffer);
  /// Bytes of the file itself, compressed as it is, that were read so far.
  std::uint64_t file_bytes_read() const;

  class Decoder;

 private:
  std::filesystem::path path_;
  std::unique_ptr<Decoder> decoder_;
  std::uint64_t bytes_ = 0;  // handed out
};

}  // namespace nibble::datasets

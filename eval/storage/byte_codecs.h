#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace nibble::eval {

/// A general-purpose compressor at one fixed setting. `expand` gets the size to expect and throws FormatError when the
/// stream is damaged or holds another number of bytes.
struct ByteCodec {
  std::string_view name;  ///< "zlib 6", "brotli 11", …: library and level
  std::vector<std::byte> (*compress)(std::span<const std::byte> bytes);
  std::vector<std::byte> (*expand)(std::span<const std::byte> bytes, std::size_t size);
};

/// zlib 6, bzip2 9, lzma 6, zstd 3, zstd 19 (Boost.Iostreams), brotli 11 (libbrotli).
std::span<const ByteCodec> byte_codecs();

}  // namespace nibble::eval

#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace nibble::datasets {

/// Token ids from a little-endian .u16 or .u32 file. Throws FormatError: unknown extension, odd size, an id >=
/// `vocabulary` (with its index), an empty file.
std::vector<std::uint32_t> read_token_file(const std::filesystem::path& path, std::size_t vocabulary);

}  // namespace nibble::datasets

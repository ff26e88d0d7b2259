#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <vector>

namespace nibble::datasets {

/// Token ids from a little-endian .u16 or .u32 file, at most the first `limit` of them. Throws FormatError: unknown
/// extension, odd size, an id >= `vocabulary` (with its index), an empty file.
std::vector<std::uint32_t> read_token_file(const std::filesystem::path& path, std::size_t vocabulary,
                                           std::size_t limit = std::numeric_limits<std::size_t>::max());

}  // namespace nibble::datasets

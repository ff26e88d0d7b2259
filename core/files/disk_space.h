#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace nibble {

/// Throws FormatError unless the file system of the directory `where`, which is there, has room for `bytes` more: work
/// that would end on a full disk is not begun. `who` needs them, for `what`: "calibration", "its shards".
void require_disk_space(const std::filesystem::path& where, std::uint64_t bytes, std::string_view who,
                        std::string_view what);

}  // namespace nibble

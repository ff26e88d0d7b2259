#pragma once

#include <filesystem>
#include <string>

namespace nibble::model {

/// True if there is something at `path` (whether or not it can be read).
bool file_exists(const std::filesystem::path& path);

/// The bytes of a file of at most 256 MiB. Throws FormatError.
std::string read_text_file(const std::filesystem::path& path);

}  // namespace nibble::model

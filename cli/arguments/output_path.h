#pragma once

#include <filesystem>

namespace nibble::cli {

/// Makes the directories that lead to an output file, before any work for it. Throws FormatError.
void create_parents(const std::filesystem::path& output);

}  // namespace nibble::cli

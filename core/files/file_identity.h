#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "core/error.h"

namespace nibble {

/// One text for all paths of a file, links of every kind included, and another for every other file. Where there is no
/// file (its machine is another one, or it is gone), the absolute path without dots and links.
std::string file_identity(const std::filesystem::path& file);

/// Throws InvalidArgument when two of these paths are of the same file.
template <class Paths>
void refuse_repeated_files(const Paths& files) {
  std::set<std::string> seen;
  for (const auto& file : files)
    NIBBLE_REQUIRE(seen.insert(file_identity(file)).second, InvalidArgument, "'{}' is given twice",
                   std::filesystem::path(file).string());
}

}  // namespace nibble

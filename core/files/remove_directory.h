#pragma once

#include <filesystem>
#include <string_view>

namespace nibble {

/// Removes a directory of unfinished work with all in it. A process that is killed meanwhile leaves none of it under
/// its name, where a later one would take half of it for work to go on with: it is moved to DIRECTORY.removed first.
/// What an earlier call left there goes too. Whoever calls sees to it that nobody else works there. Throws nothing:
/// what cannot be removed stays.
void remove_directory(const std::filesystem::path& directory);

/// What a call that was killed left of DIRECTORY is named so.
inline constexpr std::string_view kRemovedSuffix = ".removed";

}  // namespace nibble

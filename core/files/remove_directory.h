#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace nibble {

/// Removes a directory of unfinished work with all in it. A process that is killed meanwhile leaves none of it under
/// its name, where a later one would take half of it for work to go on with: it is moved to DIRECTORY.removed first.
/// What an earlier call left there goes too. Whoever calls sees to it that nobody else works there. Throws nothing:
/// what cannot be removed stays.
void remove_directory(const std::filesystem::path& directory);

/// The name of the directory that a call which was killed left this of; none where `name` is no such rest's.
std::optional<std::string> name_before_removal(std::string_view name);

}  // namespace nibble

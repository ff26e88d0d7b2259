#pragma once

#include <string>
#include <string_view>

namespace nibble {

/// What names the running program where unfinished work or kept statistics say what made them, such as a commit:
/// another version's are not gone on with. Empty until said, once, before anything else runs.
void set_program_identity(std::string identity);
std::string_view program_identity();

}  // namespace nibble

#pragma once

#include <string>
#include <string_view>

namespace nibble {

/// What names the running program where unfinished work or kept statistics say what made them, such as a commit:
/// another version's are not gone on with. Empty until said, once, before anything else runs.
void set_program_identity(std::string identity);
std::string_view program_identity();

/// The linker's hash of the program or shared library that this library is linked into, in hex digits: another one for
/// other code, of a tree that no commit has too. Empty where the linker was not asked for one (--build-id).
std::string build_id();

}  // namespace nibble

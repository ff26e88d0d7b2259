#pragma once

#include <string>
#include <utility>
#include <vector>

namespace nibble::cli {

/// What this build is: the part of every record that says which code made it.
struct VersionFacts {
  std::string version;     ///< "0.1.0"
  std::string git_commit;  ///< the commit checked out when CMake configured; empty if it was not a git checkout
  std::string compiler;    ///< "GNU 12.2.0"
  std::string build_type;  ///< "Release"
};
VersionFacts version_facts();  // build_facts.cc.in, filled in by CMake

/// Version, commit and build_id(), for set_program_identity().
std::string program_identity_text();

/// The same as records have it: version, commit, compiler, build.
std::vector<std::pair<std::string, std::string>> build_facts();

}  // namespace nibble::cli

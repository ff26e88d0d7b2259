#include "core/machine/program_identity.h"

#include <utility>

namespace nibble {
namespace {

std::string& identity() {
  static std::string name;
  return name;
}

}  // namespace

void set_program_identity(std::string name) { identity() = std::move(name); }

std::string_view program_identity() { return identity(); }

}  // namespace nibble

#include "cli/terminal/output.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace nibble::cli {
namespace {

[[noreturn]] void fail() { throw errno_error("cannot write standard output", errno); }

}  // namespace

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail();
}

void print_json(const nlohmann::ordered_json& object) {
  print(object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

void flush_output() {
  if (std::fflush(stdout) != 0) fail();
}

void warn(std::string_view text) { fmt::print(stderr, "nibble: warning: {}\n", text); }

}  // namespace nibble::cli

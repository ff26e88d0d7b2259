#include "cli/terminal/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "core/error.h"
#include "core/text/excerpt.h"
#include "core/text/json.h"

namespace nibble::cli {
namespace {

[[noreturn]] void fail() { throw errno_error("cannot write standard output", errno); }

}  // namespace

void occupy_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) < 0 && ::open("/dev/null", O_RDONLY) < 0)
      return;  // writing to it fails, as before
}

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail();
}

void print_json(const nlohmann::ordered_json& object) {
  print(object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

void flush_output() {
  if (std::fflush(stdout) != 0) fail();
}

void tell(std::string_view text) {
  // Who reads no messages gets the work all the same.
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

void warn(std::string_view text) { tell(fmt::format("nibble: warning: {}\n", printable(text))); }

}  // namespace nibble::cli

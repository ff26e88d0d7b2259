#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace nibble::test {

/// What a program left behind.
struct ProgramRun {
  int exit_code = -1;  ///< 128 + n for a program that signal n killed, as in a shell
  std::string out;     ///< standard output
  std::string err;     ///< standard error
};

struct ProgramOptions {
  std::string stdout_path;                   ///< a file instead of ProgramRun::out, for example "/dev/full"
  bool close_stdout = false;                 ///< nobody reads standard output: writing to it breaks the pipe
  std::function<void(pid_t)> while_running;  ///< called once it has started, for example to send it a signal
};

/// Runs `program` (a path) with `arguments`, no shell in between, and waits for its end. Standard input is empty.
ProgramRun run_program(const std::string& program, const std::vector<std::string>& arguments,
                       const ProgramOptions& options = {});

}  // namespace nibble::test

#include "tests/support/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>

namespace nibble::test {
namespace {

struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
    read_end = ends[0];
    write_end = ends[1];
  }
  ~Pipe() {
    close_end(read_end);
    close_end(write_end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  static void close_end(int& end) {
    if (end >= 0) close(end);
    end = -1;
  }
};

[[noreturn]] void become(const std::string& program, std::vector<char*>& arguments, const ProgramOptions& options,
                         const Pipe& out, const Pipe& err) {
  const int input = open("/dev/null", O_RDONLY);
  const int output = options.stdout_path.empty() ? out.write_end : open(options.stdout_path.c_str(), O_WRONLY);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(err.write_end, STDERR_FILENO);
  // A shell without job control has jobs in its background ignore SIGINT and SIGQUIT, nohup SIGHUP; what is ignored
  // stays so in the program.
  for (const int interrupts : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) signal(interrupts, SIG_DFL);
  execv(program.c_str(), arguments.data());
  _exit(127);
}

// Reads both ends until both are closed, so that the program never waits for a full pipe.
void drain(Pipe& out, Pipe& err, ProgramRun& run) {
  std::array<pollfd, 2> ends = {{{out.read_end, POLLIN, 0}, {err.read_end, POLLIN, 0}}};
  const std::array<std::string*, 2> texts = {&run.out, &run.err};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    if (poll(ends.data(), ends.size(), -1) < 0 && errno != EINTR) throw std::runtime_error("cannot poll");
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      std::array<char, 4096> buffer{};
      const ssize_t count = read(ends[i].fd, buffer.data(), buffer.size());
      if (count > 0) {
        texts[i]->append(buffer.data(), static_cast<std::size_t>(count));
      } else {
        ends[i].fd = -1;
      }
    }
  }
}

}  // namespace

ProgramRun run_program(const std::string& program, const std::vector<std::string>& arguments,
                       const ProgramOptions& options) {
  Pipe out, err;
  if (options.close_stdout) Pipe::close_end(out.read_end);
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) become(program, pointers, options, out, err);
  Pipe::close_end(out.write_end);
  Pipe::close_end(err.write_end);
  if (options.while_running) options.while_running(child);

  ProgramRun run;
  drain(out, err, run);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return run;
}

}  // namespace nibble::test

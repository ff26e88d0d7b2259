#include "cli/terminal/signals.h"

#include <signal.h>
#include <unistd.h>

#include "cli/exit_code.h"
#include "cli/terminal/progress_bar.h"

namespace nibble::cli {
namespace {

// AddressSanitizer would clear the stack's marks before what never returns, which asks for memory: not in a handler,
// where its own locks may be held (a signal during its search for leaks at the end hung the process).
extern "C" [[gnu::no_sanitize("address")]] void leave(int) {
  if (progress_bar_is_visible() && ::write(STDERR_FILENO, "\n", 1) < 0) _exit(kExitInterrupted);
  _exit(kExitInterrupted);
}

}  // namespace

void install_signal_handlers() {
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;  // nohup and background jobs asked for that
    struct sigaction action {};
    action.sa_handler = leave;
    action.sa_flags = SA_ONSTACK;  // core/machine/handler_stack.h
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
  signal(SIGXFSZ, SIG_IGN);  // a limit of file sizes (ulimit -f): an error of who writes, with a message
  signal(SIGPIPE, SIG_DFL);  // some parents pass on "ignored", and every write would have to be checked for it
}

}  // namespace nibble::cli

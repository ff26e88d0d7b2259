#include "cli/signals.h"

#include <signal.h>
#include <unistd.h>

#include "cli/exit_code.h"
#include "cli/progress_bar.h"

namespace nibble::cli {
namespace {

extern "C" void leave(int) {
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
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
  signal(SIGPIPE, SIG_DFL);  // some parents pass on "ignored", and every write would have to be checked for it
}

}  // namespace nibble::cli

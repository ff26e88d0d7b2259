#include "python/src/long_work.h"

#include <nanobind/stl/string.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "core/stopped.h"

namespace nibble::python {
namespace {

namespace nb = nanobind;

/// What the working thread leaves for the one that waits.
class Mailbox {
 public:
  struct Update {
    std::string stage, unit;
    double done = 0.0, total = 0.0;
  };

  void report(const ProgressUpdate& update) {
    if (stop) throw Stopped{};
    const std::lock_guard lock(mutex_);
    latest_ = Update{std::string(update.stage), std::string(update.unit), update.done, update.total};
  }
  void finish(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
    finished_ = true;
    changed_.notify_one();
  }
  /// Waits for the end, but not for long. True at the end.
  bool wait(std::optional<Update>& latest) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kLook, [this] { return finished_; });
    latest = std::exchange(latest_, std::nullopt);
    return finished_;
  }
  std::exception_ptr error() const { return error_; }

  std::atomic<bool> stop = false;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Update> latest_;
  std::exception_ptr error_;
  bool finished_ = false;
};

}  // namespace

void run_long(nb::handle progress, const std::function<void(const ProgressSink&)>& work) {
  const nb::object tell =
      progress.is_none() ? nb::none() : nb::module_::import_("nibble._progress").attr("sink")(progress);
  Mailbox mailbox;
  std::thread worker([&] {
    std::exception_ptr error;
    try {
      work([&](const ProgressUpdate& update) { mailbox.report(update); });
    } catch (...) {
      error = std::current_exception();
    }
    mailbox.finish(std::move(error));
  });

  std::exception_ptr raised;  // whatever it is: the worker is waited for first
  const auto guarded = [&](const auto& call) {
    if (raised) return;
    try {
      call();
    } catch (...) {
      raised = std::current_exception();
      mailbox.stop = true;
    }
  };
  for (bool finished = false; !finished;) {
    std::optional<Mailbox::Update> update;
    {
      const nb::gil_scoped_release release;
      finished = mailbox.wait(update);
    }
    guarded([] {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    });
    if (update && !tell.is_none()) guarded([&] { tell(update->stage, update->done, update->total, update->unit); });
  }
  {
    const nb::gil_scoped_release release;
    worker.join();
  }
  if (!tell.is_none()) guarded([&] { nb::module_::import_("nibble._progress").attr("close")(tell); });
  if (raised) std::rethrow_exception(raised);
  if (mailbox.error()) std::rethrow_exception(mailbox.error());
}

}  // namespace nibble::python

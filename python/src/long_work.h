#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <functional>
#include <optional>

#include "core/progress.h"

namespace nibble::python {

/// How often the caller's thread looks: soon enough for a person's Ctrl-C, seldom enough to cost nothing.
constexpr std::chrono::milliseconds kLook{50};

/// Runs `work` on a thread of its own and without the interpreter's lock. The calling thread meanwhile tells `progress`
/// (None, or what nibble._progress.sink() takes) how far it is, a few times a second, and listens for signals: after
/// Ctrl-C, or when `progress` raises, the work's next report ends it (core/stopped.h) and the exception goes on to the
/// caller. Exceptions of the work come out too.
void run_long(nanobind::handle progress, const std::function<void(const ProgressSink&)>& work);

/// The same for work with a result.
template <class Result>
Result run_long(nanobind::handle progress, const std::function<Result(const ProgressSink&)>& work) {
  std::optional<Result> result;
  run_long(progress, std::function<void(const ProgressSink&)>([&](const ProgressSink& sink) { result = work(sink); }));
  return std::move(*result);
}

}  // namespace nibble::python

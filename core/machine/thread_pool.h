#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace nibble {

/// Sets how many threads parallel_for() uses, the calling one included; 0 means all processors this process may run on,
/// or as many as its control groups grant it (core/machine/cpu_quota.h), rounded up.
/// Call while no parallel_for() runs (the command line calls it once). Throws InvalidArgument above 1024.
void set_thread_count(std::size_t threads);
std::size_t thread_count();  ///< inside a ThreadTeam, its threads

/// Runs body(index) for every index in [0, count), on all threads, and returns when all are done.
///
/// Indices are handed out dynamically in ascending order, so a body must not depend on which thread runs it; work is
/// cut into tiles of fixed size by the caller, so results do not depend on the number of threads. A call from inside a
/// body runs its indices one after the other on the calling thread, unless that body is its loop's only one. Of the
/// exceptions thrown by bodies, the one with the lowest index among those thrown is rethrown, after the running bodies
/// finished; indices not yet handed out are then skipped. Concurrent calls from different threads take turns.
void parallel_for(std::size_t count, const std::function<void(std::size_t)>& body);

/// Gives the thread that makes it a pool of its own, until it is gone: its parallel_for() calls, and what they call,
/// use `threads` threads, itself included, and no others. So several pieces of work run side by side without waiting
/// for each other's loops. `all`: of how many threads in all, those of teams beside it included (0: no others): where
/// these are more than the processors, threads that wait sleep at once. Threads: made and destroyed by the same thread,
/// outside of parallel_for(). Throws InvalidArgument unless 1 <= threads <= 1024.
class ThreadTeam {
 public:
  explicit ThreadTeam(std::size_t threads, std::size_t all = 0);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class ThreadPool;

/// The threads that a thread's parallel_for() has, its ThreadTeam's or those of the process, lent to another for the
/// life of a LentThreads: the two then take turns.
class LentThreads {
 public:
  static ThreadPool* of_this_thread();
  explicit LentThreads(ThreadPool* pool);
  ~LentThreads();
  LentThreads(const LentThreads&) = delete;
  LentThreads& operator=(const LentThreads&) = delete;

 private:
  ThreadPool* before_;
};

/// A number in [0, thread_count()) that identifies the thread within the running parallel_for(): for per-thread
/// scratch.
std::size_t thread_index();

/// Cuts [0, count) into tiles of `tile` and runs body(begin, end) for each, as parallel_for() does. Requires tile > 0.
void parallel_for_tiles(std::size_t count, std::size_t tile,
                        const std::function<void(std::size_t begin, std::size_t end)>& body);

}  // namespace nibble

#include "core/machine/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/machine/cpu_quota.h"
#include "core/machine/no_thread.h"
#include "core/machine/scratch_memory.h"

namespace nibble {
namespace {

std::size_t allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    return std::max<std::size_t>(1, static_cast<std::size_t>(CPU_COUNT(&set)));
  return std::max(1u, std::thread::hardware_concurrency());
}

// Of a quota of 1.5 processors two threads make more than one does, though they are held up at times.
std::size_t available_processors() {
  static const std::optional<double> quota = cpu_quota();  // files of /sys: once
  const std::size_t allowed = allowed_processors();
  return quota && *quota < static_cast<double>(allowed) ? static_cast<std::size_t>(std::ceil(*quota)) : allowed;
}

thread_local std::size_t this_thread_index = 0;
thread_local bool inside_body = false;

// Inside a token's forward pass the next loop follows within microseconds, and waking a sleeping thread costs as much
// as several of them. So threads that wait look again and again for this long, and then sleep.
constexpr std::chrono::microseconds kSpin{40};

thread_local ThreadPool* own_pool = nullptr;  // of a ThreadTeam; else the pool of the process

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // `yield` is over in a cycle; this takes about as long as the other's pause
#endif
}

// Waits until `done()`, at most as long as `patience`; tells whether it is.
template <class Done>
bool spin_until(std::chrono::steady_clock::duration patience, Done done) {
  if (done()) return true;
  if (patience.count() == 0) return false;
  const auto end = std::chrono::steady_clock::now() + patience;
  do {
    for (int i = 0; i < 8; ++i) {  // some 0.3 microseconds between looks at the clock
      pause_briefly();
      if (done()) return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// Threads begun meanwhile take no signals that somebody sends: those are for the main thread, or for the threads of the
// program that we are a library of. What a thread does itself (SIGBUS of a mapped file) it still hears of.
class SignalsElsewhere {
 public:
  SignalsElsewhere() {
    sigset_t sent;
    sigemptyset(&sent);
    for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGALRM, SIGUSR1, SIGUSR2}) sigaddset(&sent, signal);
    pthread_sigmask(SIG_BLOCK, &sent, &before_);
  }
  ~SignalsElsewhere() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsElsewhere(const SignalsElsewhere&) = delete;
  SignalsElsewhere& operator=(const SignalsElsewhere&) = delete;

 private:
  sigset_t before_ = {};
};

}  // namespace

// One loop at a time is published. Workers that are awake join it through `gate_`; the caller closes the gate when no
// index is left and waits for those inside. A worker that wakes late finds the gate closed and is waited for by nobody,
// so a loop never takes longer than the caller alone would need plus the bodies that others began.
class ThreadPool {
 public:
  // Of `all` threads that are at work together.
  ThreadPool(std::size_t threads, std::size_t all)
      : patience_(all <= available_processors() ? kSpin : std::chrono::microseconds{0}) {
    const SignalsElsewhere blocked;
    try {
      for (std::size_t i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
    } catch (const std::system_error& error) {
      const std::size_t begun = workers_.size();
      stop();
      throw_no_thread(begun + 2, threads, error);
    } catch (...) {
      stop();
      throw;
    }
  }
  ~ThreadPool() { stop(); }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::size_t size() const { return workers_.size() + 1; }

  void run(std::size_t count, const std::function<void(std::size_t)>& body) {
    const std::lock_guard turn(turn_);
    body_ = &body;
    scratch_ = LentScratch::of_this_thread();
    count_ = count;
    error_ = nullptr;
    next_.store(0, std::memory_order_relaxed);
    gate_.store(kOpen, std::memory_order_release);
    announce();
    take_indices();
    std::uint32_t inside = gate_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
    const auto all_left = [&] { return (inside = gate_.load(std::memory_order_acquire)) == 0; };
    if (inside != 0 && !spin_until(patience_, all_left))
      for (; !all_left();) gate_.wait(inside, std::memory_order_acquire);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  static constexpr std::uint32_t kOpen = 1u << 31;  // the rest of gate_ counts the workers inside

  void announce() {
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();  // no system call when nobody sleeps
  }

  void stop() {
    stop_.store(true, std::memory_order_relaxed);
    announce();
    for (std::thread& worker : workers_) worker.join();
  }

  void work(std::size_t index) {
    this_thread_index = index;
    own_pool = this;
    std::uint32_t seen = 0;
    while (true) {
      if (!spin_until(patience_, [&] { return generation_.load(std::memory_order_relaxed) != seen; }))
        generation_.wait(seen, std::memory_order_relaxed);
      seen = generation_.load(std::memory_order_acquire);
      if (stop_.load(std::memory_order_relaxed)) return;
      if (!enter()) continue;
      take_indices();
      if (gate_.fetch_sub(1, std::memory_order_acq_rel) == 1) gate_.notify_one();  // the last one, after closing time
    }
  }

  // The gate may be that of a later loop than the one that woke this worker: any open loop is as good.
  bool enter() {
    std::uint32_t gate = gate_.load(std::memory_order_relaxed);
    while ((gate & kOpen) != 0)
      if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire, std::memory_order_relaxed))
        return true;
    return false;
  }

  void take_indices() {
    const LentScratch lent(scratch_);
    inside_body = true;
    while (true) {
      const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= count_) break;
      try {
        (*body_)(index);
      } catch (...) {
        const std::lock_guard lock(error_mutex_);
        if (!error_ || index < error_index_) {
          error_ = std::current_exception();
          error_index_ = index;
        }
        next_.store(count_, std::memory_order_relaxed);
      }
    }
    inside_body = false;
  }

  const std::chrono::steady_clock::duration patience_;  // none where threads share processors
  std::vector<std::thread> workers_;
  std::mutex turn_;  // one run() at a time
  std::mutex error_mutex_;
  std::exception_ptr error_;
  std::size_t error_index_ = 0;
  std::atomic<bool> stop_{false};
  // Written by the caller while the gate is closed and nobody is inside; read by those inside.
  alignas(64) const std::function<void(std::size_t)>* body_ = nullptr;
  ScratchMemory::State* scratch_ = nullptr;  // of the caller
  std::size_t count_ = 0;
  // Each on a cache line of its own: all threads write them, at different times.
  alignas(64) std::atomic<std::uint32_t> generation_{0};
  alignas(64) std::atomic<std::uint32_t> gate_{0};
  alignas(64) std::atomic<std::size_t> next_{0};
};

namespace {

std::mutex pool_mutex;
std::unique_ptr<ThreadPool> pool_instance;  // made on first use

ThreadPool& pool() {
  if (own_pool != nullptr) return *own_pool;
  const std::lock_guard lock(pool_mutex);
  if (!pool_instance) pool_instance = std::make_unique<ThreadPool>(available_processors(), available_processors());
  return *pool_instance;
}

}  // namespace

void throw_no_thread(std::size_t number, std::size_t count, const std::system_error& error) {
  throw InvalidArgument(
      fmt::format("cannot begin thread {} of {}: {}; ask for fewer, or raise the limit of threads (ulimit -u, a "
                  "container's pids) or of memory (ulimit -v)",
                  number, count, error.code().message()));
}

void set_thread_count(std::size_t threads) {
  NIBBLE_REQUIRE(threads <= 1024, InvalidArgument, "threads: expected 0 (all processors) to 1024, got {}", threads);
  const std::size_t wanted = threads == 0 ? available_processors() : threads;
  const std::lock_guard lock(pool_mutex);
  if (pool_instance && pool_instance->size() == wanted) return;
  pool_instance.reset();
  pool_instance = std::make_unique<ThreadPool>(wanted, wanted);
}

std::size_t thread_count() { return pool().size(); }

struct ThreadTeam::State {
  State(std::size_t threads, std::size_t all) : pool(threads, all), lent(&pool) {}
  ThreadPool pool;
  LentThreads lent;
};

ThreadTeam::ThreadTeam(std::size_t threads, std::size_t all) {
  NIBBLE_REQUIRE(threads >= 1 && threads <= 1024, InvalidArgument, "threads of a team: expected 1 to 1024, got {}",
                 threads);
  state_ = std::make_unique<State>(threads, std::max(threads, all));
}

ThreadTeam::~ThreadTeam() = default;

ThreadPool* LentThreads::of_this_thread() { return own_pool; }
LentThreads::LentThreads(ThreadPool* pool) : before_(std::exchange(own_pool, pool)) {}
LentThreads::~LentThreads() { own_pool = before_; }

std::size_t thread_index() { return this_thread_index; }

void parallel_for(std::size_t count, const std::function<void(std::size_t)>& body) {
  if (inside_body || count <= 1) {
    for (std::size_t i = 0; i < count; ++i) body(i);
    return;
  }
  ThreadPool& threads = pool();
  if (threads.size() == 1) {
    for (std::size_t i = 0; i < count; ++i) body(i);
    return;
  }
  threads.run(count, body);
}

void parallel_for_tiles(std::size_t count, std::size_t tile,
                        const std::function<void(std::size_t, std::size_t)>& body) {
  NIBBLE_REQUIRE(tile > 0, InvalidArgument, "parallel_for_tiles: tile must be positive");
  parallel_for((count + tile - 1) / tile, [&](std::size_t i) { body(i * tile, std::min(count, (i + 1) * tile)); });
}

}  // namespace nibble

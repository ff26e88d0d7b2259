#include "core/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/error.h"

namespace nibble {
namespace {

std::size_t available_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    return std::max<std::size_t>(1, static_cast<std::size_t>(CPU_COUNT(&set)));
  return std::max(1u, std::thread::hardware_concurrency());
}

thread_local std::size_t this_thread_index = 0;
thread_local bool inside_body = false;

// Spins for about this many pauses before a worker sleeps (or the caller waits): inside one token's forward pass, the
// next loop follows within microseconds.
constexpr int kSpins = 2000;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

class ThreadPool {
 public:
  explicit ThreadPool(std::size_t threads) {
    for (std::size_t i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
  }
  ~ThreadPool() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::size_t size() const { return workers_.size() + 1; }

  void run(std::size_t count, const std::function<void(std::size_t)>& body) {
    const std::lock_guard turn(turn_);
    {
      const std::lock_guard lock(mutex_);
      body_ = &body;
      count_ = count;
      next_.store(0, std::memory_order_relaxed);
      error_ = nullptr;
      running_.store(workers_.size(), std::memory_order_relaxed);
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    take_indices();
    for (int spin = 0; running_.load(std::memory_order_acquire) != 0 && spin < kSpins; ++spin) pause_briefly();
    if (running_.load(std::memory_order_acquire) != 0) {
      std::unique_lock lock(mutex_);
      done_.wait(lock, [this] { return running_.load(std::memory_order_acquire) == 0; });
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void work(std::size_t index) {
    this_thread_index = index;
    std::size_t seen = 0;
    while (true) {
      for (int spin = 0; generation_.load(std::memory_order_acquire) == seen && spin < kSpins; ++spin) pause_briefly();
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return generation_.load(std::memory_order_acquire) != seen; });
        seen = generation_.load(std::memory_order_relaxed);
        if (stop_) return;
      }
      take_indices();
      if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        const std::lock_guard lock(mutex_);
        done_.notify_one();
      }
    }
  }

  void take_indices() {
    inside_body = true;
    while (true) {
      const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= count_) break;
      try {
        (*body_)(index);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error_ || index < error_index_) {
          error_ = std::current_exception();
          error_index_ = index;
        }
        next_.store(count_, std::memory_order_relaxed);
      }
    }
    inside_body = false;
  }

  std::vector<std::thread> workers_;
  std::mutex turn_;   // one run() at a time
  std::mutex mutex_;  // guards what follows, except the atomics' own reads
  std::condition_variable wake_, done_;
  const std::function<void(std::size_t)>* body_ = nullptr;
  std::size_t count_ = 0;
  std::exception_ptr error_;
  std::size_t error_index_ = 0;
  bool stop_ = false;
  alignas(64) std::atomic<std::size_t> generation_{0};
  alignas(64) std::atomic<std::size_t> next_{0};
  alignas(64) std::atomic<std::size_t> running_{0};
};

std::mutex pool_mutex;
std::unique_ptr<ThreadPool> pool_instance;  // made on first use

ThreadPool& pool() {
  const std::lock_guard lock(pool_mutex);
  if (!pool_instance) pool_instance = std::make_unique<ThreadPool>(available_processors());
  return *pool_instance;
}

}  // namespace

void set_thread_count(std::size_t threads) {
  NIBBLE_REQUIRE(threads <= 1024, InvalidArgument, "threads: expected 0 (all processors) to 1024, got {}", threads);
  const std::size_t wanted = threads == 0 ? available_processors() : threads;
  const std::lock_guard lock(pool_mutex);
  if (pool_instance && pool_instance->size() == wanted) return;
  pool_instance.reset();
  pool_instance = std::make_unique<ThreadPool>(wanted);
}

std::size_t thread_count() { return pool().size(); }

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

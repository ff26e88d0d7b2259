#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <span>

namespace nibble::test {

/// A copy of values that ends where a page ends that nobody may touch: reading or writing one byte beyond it is a
/// segmentation fault in every build.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::span<const T> values) : Guarded(values.size()) {
    if (!values.empty()) std::memcpy(data(), values.data(), values.size_bytes());
  }
  /// Zeros.
  explicit Guarded(std::size_t count) : count_(count) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    usable_ = (count * sizeof(T) + page - 1) / page * page;
    mapped_ = usable_ + page;
    void* const memory = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<std::byte*>(memory);
    if (::mprotect(memory_ + usable_, page, PROT_NONE) != 0) throw std::bad_alloc();
  }
  ~Guarded() { ::munmap(memory_, mapped_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  T* data() { return reinterpret_cast<T*>(memory_ + usable_ - count_ * sizeof(T)); }
  std::span<const T> values() { return {data(), count_}; }

 private:
  std::size_t count_ = 0, usable_ = 0, mapped_ = 0;
  std::byte* memory_ = nullptr;
};

}  // namespace nibble::test

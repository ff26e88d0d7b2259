#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace nibble {

/// Bytes from which a buffer counts as large.
constexpr std::size_t kLargeBuffer = std::size_t{1} << 20;

/// Memory for kLargeBuffer bytes or more, from the heap or as ScratchMemory (scratch_memory.h) says. Throws
/// std::bad_alloc, FormatError (disk full, naming the directory).
void* allocate_large(std::size_t bytes);
void release_large(void* buffer, std::size_t bytes) noexcept;

/// std::allocator, but for large buffers.
template <class T>
struct LargeAllocator {
  using value_type = T;
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

  LargeAllocator() = default;
  template <class U>
  LargeAllocator(const LargeAllocator<U>& /*other*/) {}  // NOLINT(google-explicit-constructor)

  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);  // std::vector asks for no more than PTRDIFF_MAX bytes
    return static_cast<T*>(bytes < kLargeBuffer ? ::operator new(bytes) : allocate_large(bytes));
  }
  void deallocate(T* buffer, std::size_t count) noexcept {
    const std::size_t bytes = count * sizeof(T);
    if (bytes < kLargeBuffer)
      ::operator delete(buffer);
    else
      release_large(buffer, bytes);
  }
  template <class U>
  bool operator==(const LargeAllocator<U>& /*other*/) const {
    return true;
  }
};

/// A vector that ScratchMemory reaches.
template <class T>
using LargeVector = std::vector<T, LargeAllocator<T>>;

}  // namespace nibble

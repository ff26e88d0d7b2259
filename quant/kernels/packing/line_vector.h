#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace nibble::quant {

/// std::allocator, but for memory that begins at a cache line.
template <class T>
struct LineAllocator {
  static constexpr std::align_val_t kLine{64};
  using value_type = T;

  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>& /*other*/) {}  // NOLINT(google-explicit-constructor)

  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kLine)); }
  void deallocate(T* memory, std::size_t /*count*/) noexcept { ::operator delete(memory, kLine); }
  template <class U>
  bool operator==(const LineAllocator<U>& /*other*/) const {
    return true;
  }
};

/// What kernels read by whole vectors of 64 bytes over and over: those that cross cache lines cost two reads each.
template <class T>
using LineVector = std::vector<T, LineAllocator<T>>;

}  // namespace nibble::quant

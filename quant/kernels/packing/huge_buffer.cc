#include "quant/kernels/packing/huge_buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace nibble::quant {
namespace {

constexpr std::size_t kCacheLine = 64, kHugePage = 2u << 20;

}  // namespace

HugeBuffer::HugeBuffer(std::size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kCacheLine;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  bytes_.reset(rounded < bytes ? nullptr : static_cast<std::uint8_t*>(std::aligned_alloc(alignment, rounded)));
  if (!bytes_) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (alignment == kHugePage) madvise(bytes_.get(), rounded, MADV_HUGEPAGE);  // a wish; small pages work too
#endif
}

void HugeBuffer::Free::operator()(std::uint8_t* pointer) const { std::free(pointer); }

}  // namespace nibble::quant

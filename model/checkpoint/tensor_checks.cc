#include "model/checkpoint/tensor_checks.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace nibble::model {
namespace {

/// First element whose exponent bits are all ones. Blocks are searched without branches, which the compiler vectorises.
template <class Bits>
std::optional<std::size_t> find_full_exponent(std::span<const std::byte> data, Bits exponent) {
  constexpr std::size_t kBlock = 1024;
  const std::size_t count = data.size() / sizeof(Bits);
  Bits block[kBlock];
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t size = std::min(kBlock, count - begin);
    std::memcpy(block, data.data() + begin * sizeof(Bits), size * sizeof(Bits));  // the data may be unaligned
    Bits found = 0;
    for (std::size_t i = 0; i < size; ++i)
      found = static_cast<Bits>(found | ((block[i] & exponent) == exponent ? 1 : 0));
    if (found == 0) continue;
    const Bits* hit = std::find_if(block, block + size, [&](Bits bits) { return (bits & exponent) == exponent; });
    return begin + static_cast<std::size_t>(hit - block);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::size_t> first_non_finite(const TensorView& tensor) {
  switch (tensor.dtype) {
    case DType::kF64:
      return find_full_exponent<std::uint64_t>(tensor.data, 0x7FF0'0000'0000'0000u);
    case DType::kF32:
      return find_full_exponent<std::uint32_t>(tensor.data, 0x7F80'0000u);
    case DType::kF16:
      return find_full_exponent<std::uint16_t>(tensor.data, 0x7C00u);
    case DType::kBF16:
      return find_full_exponent<std::uint16_t>(tensor.data, 0x7F80u);
    case DType::kF8E4M3:  // no infinities, and a NaN has a full fraction too
      return find_full_exponent<std::uint8_t>(tensor.data, 0x7Fu);
    case DType::kF8E5M2:
      return find_full_exponent<std::uint8_t>(tensor.data, 0x7Cu);
    case DType::kF8E8M0:
      return find_full_exponent<std::uint8_t>(tensor.data, 0xFFu);
    default:
      return std::nullopt;
  }
}

}  // namespace nibble::model

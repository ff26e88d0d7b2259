#include "quant/format/byte_table.h"

#include <algorithm>
#include <cstring>

namespace nibble::quant {
namespace {

constexpr std::size_t kBytes = 256;

template <std::size_t kPerByte>
void decode_bytes(const float* table, const std::byte* row, std::size_t bytes, float* values) {
  for (std::size_t i = 0; i < bytes; ++i)
    std::memcpy(values + i * kPerByte, table + std::to_integer<std::size_t>(row[i]) * kPerByte,
                kPerByte * sizeof(float));
}

}  // namespace

void ByteTable::build(std::span<const float> palette, unsigned bits) {
  bits_ = bits;
  const std::size_t per_byte = 8 / bits, mask = (std::size_t{1} << bits) - 1;
  table_.resize(kBytes * per_byte);
  for (std::size_t byte = 0; byte < kBytes; ++byte)
    for (std::size_t j = 0; j < per_byte; ++j) table_[byte * per_byte + j] = palette[byte >> (j * bits) & mask];
}

void ByteTable::decode(std::span<const std::byte> row, std::span<float> values) const {
  const std::size_t per_byte = 8 / bits_, whole = values.size() / per_byte;
  switch (bits_) {
    case 1:
      decode_bytes<8>(table_.data(), row.data(), whole, values.data());
      break;
    case 2:
      decode_bytes<4>(table_.data(), row.data(), whole, values.data());
      break;
    case 4:
      decode_bytes<2>(table_.data(), row.data(), whole, values.data());
      break;
    default:
      decode_bytes<1>(table_.data(), row.data(), whole, values.data());
      break;
  }
  const std::size_t rest = values.size() - whole * per_byte;
  if (rest > 0)
    std::copy_n(table_.data() + std::to_integer<std::size_t>(row[whole]) * per_byte, rest,
                values.data() + whole * per_byte);
}

}  // namespace nibble::quant

#include "eval/storage/bit_stream.h"

#include <utility>

#include "core/error.h"

namespace nibble::eval {

std::vector<std::byte> BitWriter::finish() {
  if (held_bits_ > 0) bytes_.push_back(static_cast<std::byte>(held_));
  held_bits_ = 0;
  return std::move(bytes_);
}

void BitReader::refill() {
  NIBBLE_REQUIRE(next_ < bytes_.size(), FormatError, "bit stream: ends after {} bytes, more expected", bytes_.size());
  held_ |= std::to_integer<std::uint64_t>(bytes_[next_++]) << held_bits_;
  held_bits_ += 8;
}

}  // namespace nibble::eval

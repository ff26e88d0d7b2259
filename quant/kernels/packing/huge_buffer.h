#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace nibble::quant {

/// Bytes aligned to a cache line, on huge pages where the system has them: weights are read front to back once per
/// token, and 4 KB pages cost a table walk each. Contents are unspecified.
class HugeBuffer {
 public:
  HugeBuffer() = default;
  /// Throws std::bad_alloc.
  explicit HugeBuffer(std::size_t bytes);

  std::uint8_t* data() { return bytes_.get(); }
  const std::uint8_t* data() const { return bytes_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::uint8_t* pointer) const;
  };
  std::unique_ptr<std::uint8_t[], Free> bytes_;
  std::size_t size_ = 0;
};

}  // namespace nibble::quant

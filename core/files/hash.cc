#include "core/files/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cstdint>
#include <new>

namespace nibble {

struct Hasher::State {
  State() : raw(XXH3_createState()) {
    if (raw == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(raw);
  }
  ~State() { XXH3_freeState(raw); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  XXH3_state_t* raw;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

Hasher& Hasher::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_128bits_update(state_->raw, bytes.data(), bytes.size());
  return *this;
}

Hasher& Hasher::update(std::string_view text) {
  const std::uint64_t size = text.size();
  update(std::as_bytes(std::span(&size, 1)));
  return update(std::as_bytes(std::span(text)));
}

std::string Hasher::hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->raw);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string hash_hex(std::span<const std::byte> bytes) { return Hasher().update(bytes).hex(); }

}  // namespace nibble

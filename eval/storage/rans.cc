#include "eval/storage/rans.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "core/error.h"

namespace nibble::eval {
namespace {

static_assert(std::endian::native == std::endian::little, "states and words are copied as they lie");

constexpr unsigned kScaleBits = 14;
constexpr std::uint32_t kScale = 1u << kScaleBits;
constexpr std::uint32_t kLow = 1u << 16;  // a state stays in [kLow, 2^32)
constexpr std::size_t kStates = 4;
constexpr std::size_t kPresenceBytes = 32;

// Frequencies of the 256 symbols in units of 1/kScale, and where each begins.
struct Model {
  std::array<std::uint32_t, 256> frequency{};
  std::array<std::uint32_t, 257> start{};

  void set_starts() {
    for (std::size_t s = 0; s < 256; ++s) start[s + 1] = start[s] + frequency[s];
  }
};

// Counts scaled to a sum of kScale, every present symbol at least 1. What rounding leaves over goes to (or comes from)
// the most frequent symbols, where it matters least.
Model model_of(std::span<const std::uint8_t> symbols) {
  std::array<std::uint64_t, 256> counts{};
  for (const std::uint8_t s : symbols) ++counts[s];
  Model model;
  std::int64_t left = kScale;
  for (std::size_t s = 0; s < 256; ++s) {
    if (counts[s] == 0) continue;
    model.frequency[s] = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(counts[s] * kScale / symbols.size()));
    left -= model.frequency[s];
  }
  while (left != 0) {
    auto& largest = *std::max_element(model.frequency.begin(), model.frequency.end());
    const std::int64_t change = std::max<std::int64_t>(left, -static_cast<std::int64_t>(largest / 2));
    largest = static_cast<std::uint32_t>(largest + change);
    left -= change;
  }
  model.set_starts();
  return model;
}

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  const std::size_t end = bytes.size();
  bytes.resize(end + sizeof(T));
  std::memcpy(bytes.data() + end, &value, sizeof(T));
}

// Takes values off the front of a byte sequence.
class Source {
 public:
  explicit Source(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T take() {
    NIBBLE_REQUIRE(bytes_.size() - next_ >= sizeof(T), FormatError, "entropy-coded stream: ends after {} bytes",
                   bytes_.size());
    T value;
    std::memcpy(&value, bytes_.data() + next_, sizeof(T));
    next_ += sizeof(T);
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t next_ = 0;
};

void write_model(const Model& model, std::vector<std::byte>& bytes) {
  bytes.resize(kPresenceBytes);
  for (std::size_t s = 0; s < 256; ++s)
    if (model.frequency[s] > 0) bytes[s / 8] |= static_cast<std::byte>(1u << (s % 8));
  for (std::size_t s = 0; s < 256; ++s)
    if (model.frequency[s] > 0) append(bytes, static_cast<std::uint16_t>(model.frequency[s]));
}

Model read_model(Source& source) {
  std::array<std::uint8_t, kPresenceBytes> presence{};
  for (std::uint8_t& byte : presence) byte = source.take<std::uint8_t>();
  Model model;
  for (std::size_t s = 0; s < 256; ++s)
    if ((presence[s / 8] & 1u << (s % 8)) != 0) model.frequency[s] = source.take<std::uint16_t>();
  model.set_starts();
  NIBBLE_REQUIRE(model.start[256] == kScale, FormatError, "entropy-coded stream: frequencies sum to {}, expected {}",
                 model.start[256], kScale);
  return model;
}

}  // namespace

std::vector<std::byte> rans_encode(std::span<const std::uint8_t> symbols) {
  if (symbols.empty()) return {};
  const Model model = model_of(symbols);
  std::array<std::uint32_t, kStates> states;
  states.fill(kLow);
  std::vector<std::uint16_t> words;  // the decoder reads them last to first
  words.reserve(symbols.size() / 2);
  for (std::size_t i = symbols.size(); i-- > 0;) {
    std::uint32_t& x = states[i % kStates];
    const std::uint32_t f = model.frequency[symbols[i]];
    if (x >= std::uint64_t{f} << (32 - kScaleBits)) {
      words.push_back(static_cast<std::uint16_t>(x));
      x >>= 16;
    }
    x = ((x / f) << kScaleBits) + x % f + model.start[symbols[i]];
  }
  std::vector<std::byte> bytes;
  write_model(model, bytes);
  for (const std::uint32_t x : states) append(bytes, x);
  std::reverse(words.begin(), words.end());
  const std::size_t end = bytes.size();
  bytes.resize(end + words.size() * 2);
  if (!words.empty()) std::memcpy(bytes.data() + end, words.data(), words.size() * 2);
  return bytes;
}

std::vector<std::uint8_t> rans_decode(std::span<const std::byte> bytes, std::size_t count) {
  std::vector<std::uint8_t> symbols(count);
  if (count == 0) return symbols;
  Source source(bytes);
  const Model model = read_model(source);
  std::vector<std::uint8_t> symbol_at(kScale);
  for (std::size_t s = 0; s < 256; ++s)
    std::fill(symbol_at.begin() + model.start[s], symbol_at.begin() + model.start[s + 1], static_cast<std::uint8_t>(s));
  std::array<std::uint32_t, kStates> states;
  for (std::uint32_t& x : states) x = source.take<std::uint32_t>();
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t& x = states[i % kStates];
    const std::uint32_t slot = x & (kScale - 1);
    const std::uint8_t s = symbol_at[slot];
    x = model.frequency[s] * (x >> kScaleBits) + slot - model.start[s];
    if (x < kLow) x = x << 16 | source.take<std::uint16_t>();
    symbols[i] = s;
  }
  return symbols;
}

}  // namespace nibble::eval

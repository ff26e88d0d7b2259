#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::test {

/// Builds GGUF files byte by byte, right or wrong on purpose, by code that shares nothing with the product's writer.
/// Numbers are little-endian.
template <class T>
std::string le(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

inline std::string u32(std::uint32_t value) { return le(value); }
inline std::string u64(std::uint64_t value) { return le(value); }
inline std::string text(std::string_view value) { return u64(value.size()) + std::string(value); }

/// A key and its value: `type` and the bytes that follow it.
inline std::string pair(std::string_view key, std::uint32_t type, std::string_view value) {
  return text(key) + u32(type) + std::string(value);
}

struct TinyGgufTensor {
  std::string name;
  std::vector<std::uint64_t> extents;  ///< as in the file: the fastest first
  std::uint32_t type = 0;              ///< F32
  std::uint64_t offset = 0;
};

inline std::string info(const TinyGgufTensor& tensor) {
  std::string bytes = text(tensor.name) + u32(static_cast<std::uint32_t>(tensor.extents.size()));
  for (const std::uint64_t extent : tensor.extents) bytes += u64(extent);
  return bytes + u32(tensor.type) + u64(tensor.offset);
}

/// Magic, version, counts, then whatever follows.
inline std::string gguf_head(std::uint64_t tensors, std::uint64_t pairs, std::uint32_t version = 3) {
  return "GGUF" + u32(version) + u64(tensors) + u64(pairs);
}

/// A file of these pairs (made by pair()), tensors and data.
inline std::string gguf_bytes(const std::vector<std::string>& pairs, const std::vector<TinyGgufTensor>& tensors,
                              std::string_view data, std::size_t alignment = 32, std::uint32_t version = 3) {
  std::string file = gguf_head(tensors.size(), pairs.size(), version);
  for (const std::string& item : pairs) file += item;
  for (const TinyGgufTensor& tensor : tensors) file += info(tensor);
  file.resize((file.size() + alignment - 1) / alignment * alignment);
  return file + std::string(data);
}

}  // namespace nibble::test

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf/blocks/block_types.h"
#include "model/gguf/gguf_value.h"

namespace nibble::model {

/// Bounds of what is read, far above anything real: they bound what a hostile file can make us allocate.
inline constexpr std::uint64_t kMaxGgufKeys = 100'000, kMaxGgufTensors = 1'000'000;
inline constexpr std::uint64_t kMaxGgufKey = 65'535;         ///< bytes of a key: the format's own limit
inline constexpr std::uint64_t kMaxGgufAlignment = 1 << 20;  ///< files have 32
inline constexpr std::size_t kMaxGgufDims = 4, kMaxGgufNesting = 4;
inline constexpr std::size_t kMaxGgufNestedArrays = 65'536;
inline constexpr std::uint32_t kGgufDefaultAlignment = 32;
inline constexpr std::size_t kMaxGgufTensorName =
    63;  ///< bytes that other readers take; we read longer names and write none

/// One stored tensor: a view into bytes that somebody else holds.
struct GgufTensor {
  std::string name;
  BlockType type = BlockType::kF32;
  std::vector<std::uint64_t> shape;  ///< row-major, as everywhere in this project: the file's numbers backwards
  std::span<const std::byte>
      data;              ///< rows of whole blocks, exactly as many bytes as the shape needs; may be unaligned
  std::size_t part = 0;  ///< which file of a split holds it

  std::uint64_t element_count() const;
  std::uint64_t cols() const { return shape.empty() ? 1 : shape.back(); }
  std::uint64_t rows() const;  ///< product of all other extents
};

struct GgufContents {
  std::uint32_t version = 3;
  GgufMetadata metadata;
  std::uint32_t alignment = kGgufDefaultAlignment;
  std::vector<GgufTensor> tensors;  ///< in the order of the file
};

/// Reads a GGUF file that is in memory (or mapped).
///
/// Layout   magic "GGUF"; u32 version; u64 tensors; u64 pairs; pairs of key, u32 type, value; for each tensor its name,
///          u32 dimensions, u64 extents (the fastest first), u32 block type, u64 offset into the data; zeros to a
///          multiple of the alignment (`general.alignment`, else 32); the data. A string is u64 bytes and the bytes; an
///          array is u32 type, u64 elements and the elements. All little-endian.
/// Accepts  versions 2 and 3. Tensors in any order, with gaps between them, each aligned; no two overlap.
/// Errors   FormatError naming the key or tensor, `file`, what was expected and what was found. Nothing is allocated in
///          proportion to a number in the file that its size does not bear out.
/// Metadata are copied; tensors point into `bytes`.
GgufContents parse_gguf(std::span<const std::byte> bytes, std::string_view file);

/// Bytes of a tensor of that type and shape. Throws FormatError naming `what` when a row is not a whole number of
/// blocks or the number does not fit.
std::uint64_t gguf_tensor_bytes(const BlockTypeInfo& type, std::span<const std::uint64_t> shape, std::string_view what);

}  // namespace nibble::model

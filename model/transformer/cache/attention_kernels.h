#pragma once

#include <cstddef>
#include <cstdint>

// Contract of the kernels of attention over cached rows, one table per instruction set. Only plain types: the files of
// the instruction sets include this.
namespace nibble::model::attention_kernels {

/// How many keys lie side by side: a vector of them meets one value of a query, so that no sum runs across a vector.
inline constexpr std::size_t kKeyBlock = 32;

/// Cached keys in blocks of kKeyBlock, one after the other, each (dim, kKeyBlock); the last one may be filled in part.
/// int8 keys have a scale per key, and place for those of whole blocks; others none (null).
template <class Stored>
struct KeyBlocks {
  const Stored* values;
  const float* scales;
  std::size_t n, dim;  ///< keys
};

/// Cached rows (n, dim), one after the other. int8 values have a scale per row; others none (null).
template <class Stored>
struct Rows {
  const Stored* values;
  const float* scales;
  std::size_t n, dim;
};

/// A few rows of float `stride` apart.
struct FloatRows {
  float* values;
  std::size_t rows, stride;
};
struct ConstFloatRows {
  const float* values;
  std::size_t rows, stride;
};

/// For rows stored as Stored. `count` queries read every key and value once per group of kernel rows, so heads that
/// share keys share the loads. Sums run in float, within (dim or n) roundings of the exact result relative to the sum
/// of magnitudes.
template <class Stored>
struct Kernels {
  /// scores(r, i) = scale * q(r) · keys(i): q (rows, dim), scores (rows, n rounded up to whole blocks; what is
  /// written behind n is of no use).
  void (*scores)(ConstFloatRows q, const KeyBlocks<Stored>& keys, float scale, FloatRows scores);
  /// out(r) += sum over i of weights(r, i) values(i): weights (rows, n), out (rows, dim).
  void (*add_weighted)(ConstFloatRows weights, const Rows<Stored>& values, FloatRows out);
};

struct Table {
  Kernels<float> f32;
  Kernels<std::uint16_t> f16;  ///< IEEE binary16
  Kernels<std::int8_t> int8;
};

/// The table of active_isa().
const Table& active();

extern const Table kScalar;
extern const Table kAvx2;
extern const Table kAvx512;
extern const Table kNeon;

}  // namespace nibble::model::attention_kernels

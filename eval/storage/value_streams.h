#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "eval/storage/entropy.h"
#include "eval/storage/transform.h"

namespace nibble::eval {

/// Stored numbers of one kind and width, over all tensors of a checkpoint, or a sample of them.
struct ValueStream {
  /// "codes, 4 bits", "row scales, F16", "block scales, F16", "block zeros, U8"; "weights, F16", "weights, F8_E4M3",
  /// "weights, mxfp4 blocks, U8", "weight scales, F32"; "blocks of Q4_K, U8".
  std::string name;
  BitPatterns patterns;
  std::vector<RowSpan> rows;          ///< they cover patterns.values in order
  std::uint64_t tensors = 0;          ///< that hold such numbers
  std::uint64_t values_in_model = 0;  ///< of all of them; the sample has patterns.values.size()
};

/// Collects the streams of a float or quantized checkpoint: the codes by width, scales and zeros of quantized weights,
/// and the matrices, and stacks of them, that are stored as floats by type: narrow ones (NarrowTensor) and their scales
/// apart, blocks of GGUF files as they lie. Palettes, biases and norms (kilobytes) are left out, and what the network
/// does not read: masks, scales of activations, a tied head that is stored again.
///
/// Of each stream at most about `sample_bytes` (packed) are taken: runs of up to 16 whole rows, evenly spaced
/// over all tensors in name order. Memory: 32 / width bytes per sampled byte. Throws FormatError;
/// InvalidArgument for a sample of 0 bytes, less than a row, or above 256 MiB.
std::vector<ValueStream> collect_value_streams(const std::filesystem::path& model, std::uint64_t sample_bytes);

}  // namespace nibble::eval

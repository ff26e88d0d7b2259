#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/progress.h"
#include "eval/storage/entropy.h"
#include "eval/storage/value_streams.h"

namespace nibble::eval {

/// What one compressor makes of one stream, its decompression compared with the original.
struct CompressionResult {
  std::string codec;      ///< "zstd 19", "rANS", "simple8b", "gorilla", …
  std::string transform;  ///< "packed", "delta+zigzag, bit planes", …; for codes of values the step alone, or "plain"
  std::uint64_t bytes = 0;
  double ratio = 0.0;           ///< packed bytes / bytes: above 1 it saves
  double bits_per_value = 0.0;  ///< bytes · 8 / values
  // Of packed bytes per second of processor time, transform included; 1 MB = 10⁶ bytes.
  double compress_megabytes_per_second = 0.0;
  double decompress_megabytes_per_second = 0.0;
};

struct StreamStudy {
  std::string stream;  ///< ValueStream::name
  unsigned width = 0;
  std::uint64_t tensors = 0;
  std::uint64_t values_in_model = 0;
  std::uint64_t values = 0;  ///< sampled
  std::uint64_t bytes = 0;   ///< of the sample, packed: what ratios are against
  Entropies entropies;
  std::vector<CompressionResult> results;  ///< general compressors, then specialists; each under every transform
};

struct StorageStudyOptions {
  std::uint64_t sample_bytes = std::uint64_t{1} << 19;  ///< of each stream
  ProgressSink progress = {};                           ///< in compressions
};

/// Asks of a float or quantized checkpoint how far its stored numbers compress: every general-purpose compressor over
/// every transform (eval/storage/transform.h) and layout, and codes made for integers and floats: rANS over byte
/// planes, simple8b, Gorilla's XOR (floats only).
///
/// Every result is decompressed, transformed back and compared; throws NumericalError naming codec and stream if it
/// differs. Throws as collect_value_streams(). One compression after the other, for the sake of the times;
/// cost about 30 s per MB of sample and stream, most of it brotli's.
std::vector<StreamStudy> study_storage(const std::filesystem::path& model, const StorageStudyOptions& options = {});

}  // namespace nibble::eval

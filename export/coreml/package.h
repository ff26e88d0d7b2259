#pragma once

#include <cstdint>
#include <filesystem>

#include "core/progress.h"
#include "export/coreml/blob_reader.h"
#include "export/coreml/blob_writer.h"
#include "export/coreml/mil.h"

namespace nibble::coreml {

/// Specification version that everything here is written for: iOS 18, macOS 15, opset CoreML8.
inline constexpr std::int32_t kSpecificationVersion = 9;

// Where files of a package lie.
std::filesystem::path model_path(const std::filesystem::path& package);
std::filesystem::path weights_path(const std::filesystem::path& package);

/// Writes the files of a package into `directory`, which is there and empty: Manifest.json, model.mlmodel, weight.bin,
/// this one in one pass. The same content gives the same bytes; identifiers are made of hashes of it. Throws
/// FormatError.
void write_package(const std::filesystem::path& directory, const Model& model, const BlobPlan& blobs,
                   const ProgressSink& progress);

/// A package read back from disk.
struct Package {
  Model model;
  BlobFile weights;
};
/// Reads Manifest.json (its entries, version and paths), model.mlmodel and weight.bin. Throws FormatError.
Package read_package(const std::filesystem::path& directory);

}  // namespace nibble::coreml

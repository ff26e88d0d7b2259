#pragma once

#include <cstdint>
#include <filesystem>

#include "cli/arguments/options.h"

namespace nibble::cli {

/// `nibble inspect MODEL --compress`: what compressors make of the stored numbers (eval/storage/storage_study.h).
void print_storage_study(const std::filesystem::path& model, std::uint64_t sample_bytes, const CommonOptions& common);

}  // namespace nibble::cli

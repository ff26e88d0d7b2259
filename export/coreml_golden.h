#pragma once

#include <filesystem>
#include <vector>

#include "export/exporter.h"

namespace nibble::exporting {

/// Writes what a device must give again beside the package X: X.golden.json (the tokens, and what the numbers are) and
/// X.golden.f32, the logits (tokens, vocabulary) of one prompt by this program's own engine, float32, little-endian.
/// Half of the tokens are random, the rest what the model itself prefers to follow them; there are no more than the
/// package has positions for. Throws FormatError when they cannot be written.
std::vector<std::filesystem::path> golden_files(const std::filesystem::path& package);
void write_golden(const ExportModel& model, const ExportOptions& options, const std::filesystem::path& package);

}  // namespace nibble::exporting

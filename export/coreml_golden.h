#pragma once

#include <filesystem>

#include "export/export_model.h"

namespace nibble::exporting {

/// Writes what a device must give again beside the package X: X.golden.json (the tokens, and what the numbers are) and
/// X.golden.f32, the logits (tokens, vocabulary) of one prompt by this program's own engine, float32, little-endian. A
/// `.partial` at the end of the package's name is not part of it. Half of the tokens are random, the rest what the
/// model itself prefers to follow them. Throws FormatError when they cannot be written.
void write_golden(const ExportModel& model, const std::filesystem::path& package);

}  // namespace nibble::exporting

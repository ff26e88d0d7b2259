#pragma once

#include <filesystem>

namespace nibble::cli {

/// `nibble calibrate --show`: settings and a table of the layers of a calibration file. Throws FormatError.
void show_calibration(const std::filesystem::path& path, bool json);

}  // namespace nibble::cli

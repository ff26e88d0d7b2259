#pragma once

#include <filesystem>

namespace nibble::cli {

/// Shows how far the sweeps of a results directory are: on a terminal again and again until all cells are there or the
/// user leaves, elsewhere once. Throws FormatError when no sweep was started there.
void watch_sweep(const std::filesystem::path& results, bool json);

}  // namespace nibble::cli

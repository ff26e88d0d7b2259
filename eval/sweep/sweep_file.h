#pragma once

#include <filesystem>
#include <string_view>

#include "eval/sweep/sweep_spec.h"

namespace nibble::eval {

/// Reads a sweep in YAML (or JSON). Paths are relative to the current directory. Throws InvalidArgument with `what`,
/// the line, and the nearest name for an unknown one: unknown keys, values out of range, settings of a cell that make
/// no sense together, no cells at all, or too many.
SweepSpec parse_sweep(std::string_view yaml, std::string_view what);
/// Throws FormatError when the file cannot be read.
SweepSpec load_sweep(const std::filesystem::path& file);

}  // namespace nibble::eval

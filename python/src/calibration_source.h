#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "quant/job/statistics/calibration_source.h"

namespace nibble::python {

/// One file or several.
using Paths = std::variant<std::filesystem::path, std::vector<std::filesystem::path>>;

/// Where windows come from, as arguments say. Throws InvalidArgument unless exactly one of text and tokens is there,
/// and for a text that is given twice.
quant::CalibrationSource source_of(const std::optional<Paths>& text, const std::optional<std::filesystem::path>& tokens,
                                   const std::string& field, std::size_t length, std::size_t samples,
                                   std::uint64_t seed, bool bos);

}  // namespace nibble::python

#pragma once

#include <filesystem>

namespace nibble::exporting {

/// Throws InvalidArgument where `output` is the model itself, lies inside it or holds it.
void require_apart(const std::filesystem::path& model, const std::filesystem::path& output);

}  // namespace nibble::exporting

#pragma once

#include <CLI/App.hpp>
#include <filesystem>
#include <string>

#include "cli/command.h"
#include "quant/recipe/recipe.h"

namespace nibble::cli {

/// Throws InvalidArgument unless the export format `name` can hold what `recipe` makes of the checkpoint `model`.
using ExportCheck = void (*)(const std::string& name, const std::filesystem::path& model, const quant::Recipe& recipe);

/// `nibble quantize`; its option --for asks `require_exportable`, and is absent where that is null.
Command make_quantize_command(CLI::App& program, ExportCheck require_exportable);

}  // namespace nibble::cli

#pragma once

#include <CLI/App.hpp>
#include <filesystem>
#include <string>
#include <string_view>

#include "quant/store/load_model.h"

namespace nibble::cli {

/// --compute: how the products of a model are made. `name` holds the default.
void add_compute(CLI::App& app, std::string& name);

/// "reference" decodes from the file whatever the number of tokens; the other modes are those of packed products.
/// Throws InvalidArgument for a mode that there is not, and as load_model(). Warns where int8 was asked for and nothing
/// in the model is multiplied in bytes.
quant::LoadedModel load_to_compute(const std::filesystem::path& model, std::string_view compute);

}  // namespace nibble::cli

#pragma once

#include <CLI/App.hpp>
#include <string>
#include <string_view>

#include "quant/store/load_model.h"

namespace nibble::cli {

/// --compute: how the products of a model are made. `name` holds the default.
void add_compute(CLI::App& app, std::string& name);

/// "reference" decodes from the file whatever the number of tokens; the other modes are those of packed products.
/// Throws InvalidArgument for a mode that there is not.
quant::LoadOptions load_options(std::string_view compute);

}  // namespace nibble::cli

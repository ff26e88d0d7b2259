#pragma once

#include <CLI/App.hpp>
#include <string>
#include <string_view>

#include "quant/kernels/packed_linear.h"

namespace nibble::cli {

/// --compute: the arithmetic of packed products.
void add_compute(CLI::App& app, std::string& name);
/// Throws InvalidArgument for a mode that there is not.
quant::Compute compute_mode(std::string_view name);

}  // namespace nibble::cli

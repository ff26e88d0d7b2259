#pragma once

#include <filesystem>
#include <string>

#include "quant/store/load_model.h"

namespace nibble::cli {

/// "path (method, 4.500 bits per weight)": the model as every evaluating command names it.
std::string model_fact(const std::filesystem::path& path, const quant::LoadedModel& model);

/// "mode: kernel, kernel": what multiplies, in which mode of --compute.
std::string kernels_fact(const std::string& compute, const quant::LoadedModel& model);

}  // namespace nibble::cli

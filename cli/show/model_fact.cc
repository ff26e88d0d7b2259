#include "cli/show/model_fact.h"

#include <fmt/format.h>

namespace nibble::cli {

std::string model_fact(const std::filesystem::path& path, const quant::LoadedModel& model) {
  return fmt::format("{} ({}, {:.3f} bits per weight)", path.string(), model.method, model.bits_per_weight);
}

std::string kernels_fact(const std::string& compute, const quant::LoadedModel& model) {
  return fmt::format("{}: {}", compute, fmt::join(model.kernels, ", "));
}

}  // namespace nibble::cli

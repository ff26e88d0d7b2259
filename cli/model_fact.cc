#include "cli/model_fact.h"

#include <fmt/format.h>

namespace nibble::cli {

std::string model_fact(const std::filesystem::path& path, const quant::LoadedModel& model) {
  return fmt::format("{} ({}, {:.3f} bits per weight)", path.string(), model.method, model.bits_per_weight);
}

}  // namespace nibble::cli

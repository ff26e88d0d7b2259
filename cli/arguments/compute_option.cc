#include "cli/arguments/compute_option.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "cli/terminal/output.h"
#include "quant/store/compute_modes.h"

namespace nibble::cli {
void add_compute(CLI::App& app, std::string& name) {
  app.add_option("--compute", name,
                 "Products of the weights just as the format defines them: reference (decoded from the file at every "
                 "use), exact (packed in memory); or of rounded values: bf16, int8 (docs/protocols.md)")
      ->type_name("MODE")
      ->capture_default_str();
}

quant::LoadedModel load_to_compute(const std::filesystem::path& model, std::string_view compute) {
  quant::LoadedModel loaded = quant::load_model(model, choose("--compute", compute, quant::kComputeModes));
  const bool in_bytes = std::any_of(loaded.kernels.begin(), loaded.kernels.end(),
                                    [](const std::string& kernel) { return kernel.starts_with("packed_int8"); });
  if (compute == quant::compute_name(quant::Compute::kInt8) && !in_bytes)
    warn(fmt::format("--compute int8: no layer of '{}' has a form that is multiplied in 8 bits (docs/protocols.md): {}",
                     model.string(), fmt::join(loaded.kernels, ", ")));
  return loaded;
}

}  // namespace nibble::cli

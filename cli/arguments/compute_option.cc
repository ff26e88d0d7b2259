#include "cli/arguments/compute_option.h"

#include "quant/store/compute_modes.h"

namespace nibble::cli {
void add_compute(CLI::App& app, std::string& name) {
  app.add_option("--compute", name,
                 "Products of the weights just as the format defines them: reference (decoded from the file at every "
                 "use), exact (packed in memory); or of rounded values: bf16, int8 (docs/protocols.md)")
      ->type_name("MODE")
      ->capture_default_str();
}

quant::LoadOptions load_options(std::string_view compute) { return choose("--compute", compute, quant::kComputeModes); }

}  // namespace nibble::cli

#include "cli/compute_option.h"

#include <array>

#include "core/choice.h"

namespace nibble::cli {
namespace {

using quant::Compute;
using quant::LoadOptions;

constexpr std::array<Choice<LoadOptions>, 4> kModes = {{{"reference", {.packed = false}},
                                                        {"exact", {.packed = true, .compute = Compute::kExact}},
                                                        {"bf16", {.packed = true, .compute = Compute::kBf16}},
                                                        {"int8", {.packed = true, .compute = Compute::kInt8}}}};

}  // namespace

void add_compute(CLI::App& app, std::string& name) {
  app.add_option("--compute", name,
                 "Products of the weights just as the format defines them: reference (decoded from the file at every "
                 "use), exact (packed in memory); or of rounded values: bf16, int8 (docs/protocols.md)")
      ->type_name("MODE")
      ->capture_default_str();
}

LoadOptions load_options(std::string_view compute) { return choose("--compute", compute, kModes); }

}  // namespace nibble::cli

#include "cli/compute_option.h"

#include "core/error.h"

namespace nibble::cli {

void add_compute(CLI::App& app, std::string& name) {
  app.add_option("--compute", name, "Arithmetic of the products; exact uses just the values that the format defines")
      ->type_name("MODE")
      ->capture_default_str();
}

quant::Compute compute_mode(std::string_view name) {
  const auto compute = quant::compute_from_name(name);
  NIBBLE_REQUIRE(compute.has_value(), InvalidArgument, "--compute: there is no mode '{}'; 'exact' always is", name);
  return *compute;
}

}  // namespace nibble::cli

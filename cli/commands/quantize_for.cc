#include "cli/commands/quantize.h"
#include "export/export_checkpoint.h"

namespace nibble::cli {

Command quantize_command(CLI::App& program) {
  return make_quantize_command(
      program, [](const std::string& name, const std::filesystem::path& model, const quant::Recipe& recipe) {
        exporting::require_exportable(exporting::find_exporter(name), model, recipe);
      });
}

}  // namespace nibble::cli

#include "export/companions.h"

#include "core/output_file.h"
#include "model/open/companions.h"

namespace nibble::exporting {

void write_text(const std::filesystem::path& file, std::string_view text) {
  OutputFile out(file);
  out.write(text);
  out.commit();
}

void add_companions(const ExportModel& model, const std::filesystem::path& output) {
  model::add_companions(model.checkpoint()->directory(), output);
}

}  // namespace nibble::exporting

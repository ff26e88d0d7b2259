#include "export/output_path.h"

#include "core/error.h"
#include "core/files/output_directory.h"

namespace nibble::exporting {

namespace fs = std::filesystem;

void require_apart(const fs::path& model, const fs::path& output) {
  std::error_code error;
  NIBBLE_REQUIRE(!fs::equivalent(model, output, error), InvalidArgument, "output '{}' is the model itself",
                 output.string());
  const fs::path named = output.has_filename() ? output : output.parent_path();  // without a slash
  const fs::path inside = fs::weakly_canonical(named, error).lexically_relative(fs::weakly_canonical(model, error));
  NIBBLE_REQUIRE(inside.empty() || *inside.begin() == "..", InvalidArgument, "output '{}' lies inside the model '{}'",
                 output.string(), model.string());
  require_inputs_outside(output, {&model, 1});
}

}  // namespace nibble::exporting

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "cli/version.h"
#include "core/machine/isa.h"
#include "core/machine/program_identity.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/gemm.h"
#include "python/src/arrays.h"
#include "python/src/bindings.h"
#include "python/src/errors.h"

namespace nibble::python {
namespace {

using namespace nb::literals;

// What functions would read of an array: for tests that nothing is copied.
nb::tuple view_facts(const AnyArray& array) {
  const Floats floats(array, "array");
  return nb::make_tuple(reinterpret_cast<std::uintptr_t>(floats.matrix().data()), floats.copied());
}

nb::dict build_info() {
  const cli::VersionFacts facts = cli::version_facts();
  nb::dict info;
  info["version"] = facts.version;
  info["git_commit"] = facts.git_commit;
  info["compiler"] = facts.compiler;
  info["build_type"] = facts.build_type;
  info["instruction_set"] = std::string(isa_name(active_isa()));
  info["matrix_products"] = gemm_identity();
  info["threads"] = thread_count();
  return info;
}

}  // namespace
}  // namespace nibble::python

NB_MODULE(_nibble, module) {
  using namespace nibble::python;
  nibble::set_program_identity(nibble::cli::program_identity_text());
  module.doc() = "Bindings of the Nibble libraries; use them as `import nibble`.";
  bind_errors(module);
  bind_palettes(module);
  bind_blocks(module);
  bind_solvers(module);
  bind_packing(module);
  bind_recipe(module);
  bind_tensor(module);
  bind_checkpoint(module);
  bind_tokenizer(module);
  bind_calibration(module);
  bind_quantize(module);
  bind_model(module);
  bind_quality(module);
  bind_sweep(module);
  module.def(
      "set_threads", [](std::size_t threads) { nibble::set_thread_count(threads); }, "threads"_a = 0,
      "How many threads work uses; 0: all processors that this process may run on. Not while other work runs.");
  module.def("build_info", &build_info, nb::sig("def build_info() -> dict[str, typing.Any]"),
             "Version, commit, compiler, and what it runs with here: `nibble version --json`.");
  module.def("_view_facts", &view_facts, "array"_a,
             nb::sig("def _view_facts(array: numpy.typing.NDArray) -> tuple[int, bool]"));
}

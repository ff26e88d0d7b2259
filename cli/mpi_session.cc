#include "cli/mpi_session.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "cli/exit_code.h"
#include "cli/terminal/output.h"
#include "core/error.h"
#if NIBBLE_HAVE_MPI
#include "calib/collect/mpi_team.h"
#endif

namespace nibble::cli {
namespace {

// Open MPI's and MPICH's launchers tell their children.
bool started_by_mpirun() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const char* size = std::getenv(name);
    if (size != nullptr && std::string_view(size) != "1") return true;
  }
  return false;
}

}  // namespace

MpiSession::MpiSession() {
  if (!started_by_mpirun()) {
    team_ = std::make_unique<calib::Team>();
    return;
  }
#if NIBBLE_HAVE_MPI
  team_ = std::make_unique<calib::MpiTeam>();
#else
  throw InvalidArgument(
      "started by mpirun, but this build has no MPI (NIBBLE_MPI); the processes would do the same work");
#endif
}

MpiSession::~MpiSession() = default;

void MpiSession::run([[maybe_unused]] std::string_view command, const std::function<void()>& work) {
#if NIBBLE_HAVE_MPI
  if (auto* team = dynamic_cast<calib::MpiTeam*>(team_.get())) {
    try {
      return work();
    } catch (const std::exception& error) {
      tell(fmt::format("nibble {}: error in process {}: {}\n", command, team->rank(), error_text(error)));
      team->abort(exit_code_of(error));
    }
  }
#endif
  work();
}

}  // namespace nibble::cli

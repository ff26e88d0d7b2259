#pragma once

#include <functional>
#include <memory>

#include "calib/collect/team.h"

namespace nibble::cli {

/// The processes of the mpirun that started this one, or this one alone.
class MpiSession {
 public:
  /// Throws InvalidArgument when started by an mpirun of several processes and this build has no MPI.
  MpiSession();
  ~MpiSession();
  calib::Team& team() { return *team_; }
  /// Runs `work`; what it throws passes through, except in a team, where it is reported and ends all processes.
  void run(const std::function<void()>& work);

 private:
  std::unique_ptr<calib::Team> team_;
};

}  // namespace nibble::cli

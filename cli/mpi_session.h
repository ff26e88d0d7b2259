#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "calib/collect/team.h"

namespace nibble::cli {

/// The processes of the mpirun that started this one, or this one alone.
class MpiSession {
 public:
  /// Throws InvalidArgument when started by an mpirun of several processes and this build has no MPI.
  MpiSession();
  ~MpiSession();
  calib::Team& team() { return *team_; }
  /// Runs `work` of a command; what it throws passes through, except in a team, where it is reported and ends all
  /// processes: the others would wait for this one for ever.
  void run(std::string_view command, const std::function<void()>& work);

 private:
  std::unique_ptr<calib::Team> team_;
};

}  // namespace nibble::cli

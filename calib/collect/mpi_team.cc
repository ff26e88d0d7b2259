#include "calib/collect/mpi_team.h"

#include <algorithm>
#include <boost/mpi/collectives/all_reduce.hpp>
#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <cstdlib>
#include <functional>
#include <vector>

namespace nibble::calib {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;  // values per call: the copy that is sent stays small

template <class T, class Operation>
void reduce(const boost::mpi::communicator& world, std::span<T> values, const Operation& operation) {
  std::vector<T> sent;
  for (std::size_t begin = 0; begin < values.size(); begin += kChunk) {
    const auto part = values.subspan(begin, std::min(kChunk, values.size() - begin));
    // Into a copy: Boost's in-place form binds a reference to MPI_IN_PLACE, which is no address of a T.
    sent.assign(part.begin(), part.end());
    boost::mpi::all_reduce(world, sent.data(), static_cast<int>(part.size()), part.data(), operation);
  }
}

// Processes that wait for another one ask for its message without end. Open MPI lets others have the processor
// meanwhile where it was told that there are more processes than processors; what else runs there, and that a container
// grants fewer, it is not told. So it always does, unless the environment says otherwise.
boost::mpi::threading::level yielding(boost::mpi::threading::level level) {
  ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  return level;
}

}  // namespace

struct MpiTeam::State {
  boost::mpi::environment environment{yielding(boost::mpi::threading::serialized), false};
  boost::mpi::communicator world;
};

MpiTeam::MpiTeam() : state_(std::make_unique<State>()) {}
MpiTeam::~MpiTeam() = default;
std::size_t MpiTeam::size() const { return static_cast<std::size_t>(state_->world.size()); }
std::size_t MpiTeam::rank() const { return static_cast<std::size_t>(state_->world.rank()); }
void MpiTeam::sum(std::span<double> values) { reduce(state_->world, values, std::plus<double>()); }
void MpiTeam::min(std::span<float> values) { reduce(state_->world, values, boost::mpi::minimum<float>()); }
void MpiTeam::max(std::span<float> values) { reduce(state_->world, values, boost::mpi::maximum<float>()); }
bool MpiTeam::all(bool value) {
  float smallest = value ? 1.0f : 0.0f;
  min(std::span(&smallest, 1));
  return smallest == 1.0f;
}

void MpiTeam::abort(int exit_code) {
  boost::mpi::environment::abort(exit_code);
  std::abort();  // not reached
}

}  // namespace nibble::calib

#include "eval/sweep/mpi_hand_out.h"

#include <boost/mpi/communicator.hpp>
#include <chrono>
#include <mutex>
#include <thread>

namespace nibble::eval {
namespace {

constexpr int kAsk = 1, kAnswer = 2;  // tags
constexpr int kMore = 0, kLeave = 1;  // what is asked
constexpr long kNone = -1;
constexpr auto kPause = std::chrono::milliseconds(2);

}  // namespace

struct MpiHandOut::State {
  explicit State(std::size_t jobs) : local(jobs) {}
  boost::mpi::communicator world;
  LocalHandOut local;  // the first process's
  std::thread dealer;  // there: the only thread that calls MPI meanwhile
  std::mutex mutex;    // elsewhere: one caller of MPI at a time
  bool finished = false;

  // A process asks until it is told that there is no more, or leaves early.
  void deal() {
    for (int asking = world.size() - 1; asking > 0;) {
      const auto message = world.iprobe(boost::mpi::any_source, kAsk);
      if (!message) {
        std::this_thread::sleep_for(kPause);
        continue;
      }
      int asked = 0;
      world.recv(message->source(), kAsk, asked);
      if (asked == kLeave) {
        --asking;
        continue;
      }
      const auto job = local.next();
      world.send(message->source(), kAnswer, job ? static_cast<long>(*job) : kNone);
      if (!job) --asking;
    }
  }
};

MpiHandOut::MpiHandOut(std::size_t jobs) : state_(std::make_unique<State>(jobs)) {
  if (state_->world.rank() == 0) state_->dealer = std::thread([this] { state_->deal(); });
}

MpiHandOut::~MpiHandOut() {
  if (state_->world.rank() == 0) {
    state_->local.stop();  // all were dealt out, or this process failed: then the others end after those in work
    state_->dealer.join();
  } else if (!state_->finished) {
    state_->world.send(0, kAsk, kLeave);
  }
}

std::optional<std::size_t> MpiHandOut::next() {
  if (state_->world.rank() == 0) return state_->local.next();
  const std::lock_guard lock(state_->mutex);
  if (state_->finished) return std::nullopt;
  state_->world.send(0, kAsk, kMore);
  long job = kNone;
  state_->world.recv(0, kAnswer, job);
  if (job != kNone) return static_cast<std::size_t>(job);
  state_->finished = true;
  return std::nullopt;
}

}  // namespace nibble::eval

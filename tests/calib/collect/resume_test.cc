// Runs that are stopped, by an exception or by SIGKILL, and taken up again.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "calib/collect/collector.h"
#include "core/error.h"
#include "core/machine/program_identity.h"
#include "core/machine/thread_pool.h"
#include "tests/calib/collect/toy_calibration.h"
#include "tests/support/throws.h"

namespace nibble::calib {
namespace {

struct Stopped : std::runtime_error {
  Stopped() : std::runtime_error("stopped") {}
};

/// Runs the job until the progress sink was called `calls` times; true if it came to its end before.
bool run_and_stop(CalibrationJob job, int calls, std::span<const CalibrationJob> parts = {}) {
  job.progress = [&calls](const ProgressUpdate&) {
    if (calls-- == 0) throw Stopped();
  };
  try {
    calibrate(job, parts);
  } catch (const Stopped&) {
    return false;
  }
  return true;
}

class Resume : public testing::TestWithParam<bool> {
 protected:
  CalibrationJob job(const char* name) const {
    CalibrationJob job = toy.job(name);
    job.settings.head = true;  // whose layer lacks the output Hessian that the others have
    if (!GetParam()) return job;
    job.settings.guide = Guide::kWhitened;  // whose metric is collected before
    job.memory_bytes = memory_that_forces_files(job);
    return job;
  }
  const ToyCalibration toy{"llama", kBatchWindows + 3};
};
INSTANTIATE_TEST_SUITE_P(ResidualsInMemoryAndFiles, Resume, testing::Bool(),
                         [](const auto& instance) { return instance.param ? "files" : "memory"; });

TEST_P(Resume, StoppedAnywhereEndsInTheSameBytes) {
  calibrate(job("undisturbed"));
  const std::string expected = test::read_file(toy.dir / "undisturbed");
  int stops = 0;
  for (bool complete = false; !complete; ++stops) {
    const std::string name = fmt::format("stopped-{}", stops);
    complete = run_and_stop(job(name.c_str()), stops);
    EXPECT_EQ(std::filesystem::exists(toy.dir / name), complete);
    calibrate(job(name.c_str()));
    EXPECT_TRUE(test::read_file(toy.dir / name) == expected) << "stopped after " << stops << " batches";
    EXPECT_FALSE(std::filesystem::exists(toy.dir / (name + ".work")));
  }
  EXPECT_GT(stops, 8);  // 2 batches, 2 blocks, there and back
}

TEST_P(Resume, StoppedAnywhereEndsInTheSameParts) {
  const auto part = [&](const std::string& name) {
    CalibrationJob first = job(name.c_str());
    first.tokens = first.tokens.first(kBatchWindows * kWindow);
    return first;
  };
  calibrate(job("undisturbed"));
  calibrate(part("first"));
  const std::string whole = test::read_file(toy.dir / "undisturbed"), first = test::read_file(toy.dir / "first");
  int stops = 0;
  for (bool complete = false; !complete; ++stops) {
    const std::string name = fmt::format("stopped-{}", stops);
    const CalibrationJob its_part = part(name + ".first");
    complete = run_and_stop(job(name.c_str()), stops, {&its_part, 1});
    calibrate(job(name.c_str()), {&its_part, 1});
    EXPECT_TRUE(test::read_file(toy.dir / name) == whole) << "stopped after " << stops << " batches";
    EXPECT_TRUE(test::read_file(its_part.output) == first) << "stopped after " << stops << " batches";
    EXPECT_FALSE(std::filesystem::exists(its_part.output.string() + ".work"));
  }
  EXPECT_GT(stops, 8);
}

TEST_P(Resume, APartThatCameLaterIsWholeOrMissing) {
  calibrate(job("undisturbed"));
  const int metric = GetParam() ? 6 : 0;
  for (const int calls : {1, metric + 5, metric + 9}) {
    const std::string name = fmt::format("stopped-{}", calls);
    CalibrationJob part = job((name + ".first").c_str());
    part.tokens = part.tokens.first(kBatchWindows * kWindow);
    ASSERT_FALSE(run_and_stop(job(name.c_str()), calls));
    calibrate(job(name.c_str()), {&part, 1});
    EXPECT_TRUE(test::read_file(toy.dir / name) == test::read_file(toy.dir / "undisturbed"));
    EXPECT_EQ(std::filesystem::exists(part.output), calls == 1) << calls;
    EXPECT_FALSE(std::filesystem::exists(part.output.string() + ".work"));
  }
}

TEST_P(Resume, StoppedAgainAndAgainStillEndsInTheSameBytes) {
  calibrate(job("undisturbed"));
  // Each attempt gets a little further than the one before at least finished layers: 7 batches cover a block.
  int attempts = 0;
  while (!run_and_stop(job("stubborn"), 5 + attempts) && attempts < 20) ++attempts;
  EXPECT_GT(attempts, 0);
  EXPECT_TRUE(test::read_file(toy.dir / "stubborn") == test::read_file(toy.dir / "undisturbed"));
}

TEST_P(Resume, KilledProcessesLeaveNothingThatHinders) {
  set_thread_count(1);  // a forked child has none of its parent's threads
  calibrate(job("undisturbed"));
  for (const int calls : {0, 3, 6, 9}) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      CalibrationJob killed = job("killed");
      int left = calls;
      killed.progress = [&](const ProgressUpdate&) {
        if (left-- == 0) raise(SIGKILL);
      };
      calibrate(killed);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) || calls > 6);
  }
  calibrate(job("killed"));
  set_thread_count(0);
  EXPECT_TRUE(test::read_file(toy.dir / "killed") == test::read_file(toy.dir / "undisturbed"));
}

TEST_P(Resume, OtherSettingsAreRefusedNamingWhatDiffers) {
  ASSERT_FALSE(run_and_stop(job("calib.h5"), 5));
  const auto refused = [&](auto change, auto... words) {
    CalibrationJob other = job("calib.h5");
    change(other);
    return test::throws_with<InvalidArgument>([&] { calibrate(other); }, "calib.h5.work", words...);
  };
  EXPECT_TRUE(refused([](CalibrationJob& j) { j.settings.model_hash = "x"; }, "model_hash: 'toy' then, 'x' now"));
  EXPECT_TRUE(refused([](CalibrationJob& j) { j.settings.tokenizer_hash = "x"; }, "tokenizer_hash"));
  EXPECT_TRUE(refused([](CalibrationJob& j) { j.settings.text_hash = "x"; }, "text_hash"));
  EXPECT_TRUE(refused([](CalibrationJob& j) { j.tokens = j.tokens.first(kWindow); }, "windows_hash", "windows: "));
  EXPECT_TRUE(refused([](CalibrationJob& j) { j.settings.seeds = {1}; }, "seeds: '11' then, '1' now"));
  EXPECT_TRUE(refused([](CalibrationJob& j) { j.settings.flavour = FisherFlavour::kPosition; }, "flavour"));
  EXPECT_TRUE(refused([](CalibrationJob& j) { j.settings.labels = Labels::kSampled; }, "labels"));
  const Guide other = GetParam() ? Guide::kPlain : Guide::kWhitened;
  EXPECT_TRUE(refused([&](CalibrationJob& j) { j.settings.guide = other; }, "guide"));
  EXPECT_TRUE(refused([](CalibrationJob& j) { j.settings.head = false; }, "head"));
  EXPECT_TRUE(refused([](CalibrationJob& j) { j.centre = Centre::kOwn, j.settings.head = false; }, "centre"));
  EXPECT_TRUE(refused([](CalibrationJob& j) { j.settings.collected.fisher = false; }, "collected"));
  EXPECT_TRUE(refused([](CalibrationJob& j) { j.settings.collected.output_hessian = false; }, "collected"));
  set_program_identity("another version");
  EXPECT_TRUE(refused([](CalibrationJob&) {}, "program: '' then, 'another version' now"));
  set_program_identity("");
  EXPECT_NO_THROW(calibrate(job("calib.h5")));
}

TEST_P(Resume, ACompleteOutputIsKeptAndProtected) {
  calibrate(job("calib.h5"));
  const auto written = std::filesystem::last_write_time(toy.dir / "calib.h5");
  calibrate(job("calib.h5"));
  EXPECT_EQ(std::filesystem::last_write_time(toy.dir / "calib.h5"), written);
  // Killed once the output had its name, before the work directory was removed.
  std::filesystem::create_directory(toy.dir / "calib.h5.work");
  test::write_file(toy.dir / "calib.h5.work/lock", "");
  test::write_file(toy.dir / "calib.h5.work/00000.forward.shard", "any");
  test::write_file(toy.dir / "calib.h5.lock", "");
  calibrate(job("calib.h5"));
  EXPECT_FALSE(std::filesystem::exists(toy.dir / "calib.h5.work"));
  EXPECT_FALSE(std::filesystem::exists(toy.dir / "calib.h5.lock"));
  CalibrationJob other = job("calib.h5");
  other.settings.flavour = FisherFlavour::kPosition;
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { calibrate(other); }, "is there already",
                                                 "flavour: 'sequence' against 'position'"));
}

TEST_P(Resume, ADamagedShardIsNamedAndMadeAnewOnceRemoved) {
  calibrate(job("undisturbed"));
  ASSERT_FALSE(run_and_stop(job("calib.h5"), 10));
  const auto shard = toy.dir / "calib.h5.work/00000.forward.shard";
  ASSERT_TRUE(std::filesystem::exists(shard));
  std::string bytes = test::read_file(shard);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  test::write_file(shard, bytes);
  EXPECT_TRUE(test::throws_with<FormatError>([&] { calibrate(job("calib.h5")); }, "00000.forward.shard", "remove it"));
  EXPECT_FALSE(std::filesystem::exists(toy.dir / "calib.h5"));
  std::filesystem::remove(shard);
  calibrate(job("calib.h5"));
  EXPECT_TRUE(test::read_file(toy.dir / "calib.h5") == test::read_file(toy.dir / "undisturbed"));
}

// A limit on file sizes fails writes as a full disk does, once SIGXFSZ is ignored. These limits are met by the first
// and by later shards; the output itself is tested with its writer.
TEST_P(Resume, AFullDiskStopsTheRunWhichGoesOnLater) {
  calibrate(job("undisturbed"));
  const auto previous_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit previous{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &previous), 0);
  for (const rlim_t bytes : {rlim_t{100}, rlim_t{4000}}) {
    rlimit limit = previous;
    limit.rlim_cur = bytes;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const auto result = test::throws_with<FormatError>([&] { calibrate(job("calib.h5")); }, "calib.h5");
    setrlimit(RLIMIT_FSIZE, &previous);
    EXPECT_TRUE(result) << bytes;
    EXPECT_FALSE(std::filesystem::exists(toy.dir / "calib.h5"));
  }
  std::signal(SIGXFSZ, previous_handler);
  calibrate(job("calib.h5"));
  EXPECT_TRUE(test::read_file(toy.dir / "calib.h5") == test::read_file(toy.dir / "undisturbed"));
}

}  // namespace
}  // namespace nibble::calib

// What OutputDirectory promises: nothing half-written under the final name, nothing of the user's removed, and a killed
// run that goes on where it stopped and ends in the same bytes.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <set>
#include <thread>

#include "calib/stats/stats_writer.h"
#include "core/error.h"
#include "core/files/output_directory.h"
#include "core/machine/program_identity.h"
#include "core/random.h"
#include "quant/job/quantize_model.h"
#include "tests/calib/stats/example_stats.h"
#include "tests/quant/job/calibrated_models.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/files.h"
#include "tests/support/layers.h"
#include "tests/support/run_program.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using test::TempDir;
namespace fs = std::filesystem;

QuantizeResult quantize(const fs::path& model, const fs::path& output, std::string_view set = "bits=4",
                        bool overwrite = false) {
  Recipe recipe;
  recipe.apply_set(set);
  return quantize_model({.model = model, .output = output, .recipe = recipe, .overwrite = overwrite, .progress = {}});
}

// Runs quantize() and stops it with an exception after about `weights` weights, as a kill would.
void quantize_partly(const fs::path& model, const fs::path& output, double weights) {
  struct Stop {};
  try {
    quantize_model(
        {.model = model, .output = output, .recipe = {}, .overwrite = false, .progress = [&](const auto& at) {
           if (at.done >= weights) throw Stop();
         }});
  } catch (const Stop&) {
  }
}

std::set<std::string> shards_in(const fs::path& partial) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(partial / "scratch"))
    if (entry.path().extension() == ".safetensors") names.insert(entry.path().filename().string());
  return names;
}

TEST(Resuming, ReusesFinishedWeightsAndEndsInTheSameBytes) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  quantize(dir / "model", dir / "expected");
  quantize_partly(dir / "model", dir / "out", 1000);
  EXPECT_FALSE(fs::exists(dir / "out"));
  const auto done = shards_in(dir / "out.partial");
  ASSERT_FALSE(done.empty());
  const auto result = quantize(dir / "model", dir / "out");
  std::size_t found = 0;
  for (const auto& tensor : result.tensors) {
    found += tensor.resumed ? 1 : 0;
    EXPECT_GT(tensor.seconds, 0.0) << "of the run that made it";
  }
  EXPECT_EQ(found, done.size());
  EXPECT_EQ(test::files_without_times(dir / "out"), test::files_without_times(dir / "expected"));
  EXPECT_FALSE(fs::exists(dir / "out.partial"));
}

TEST(Reporting, HearsOfEveryWeightOnceBeforeTheProgressThatCountsIt) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  std::vector<std::string> heard;
  double weights = 0.0, done = -1.0, total = 0.0;
  const auto result = quantize_model({.model = dir / "model",
                                      .output = dir / "out",
                                      .recipe = {},
                                      .progress =
                                          [&](const ProgressUpdate& at) {
                                            EXPECT_LE(at.done, weights);  // others may be heard of already
                                            EXPECT_GT(at.done, done);
                                            done = at.done, total = at.total;
                                          },
                                      .tensor_done =
                                          [&](const TensorResult& tensor) {
                                            heard.push_back(tensor.name);
                                            weights += static_cast<double>(tensor.weights);
                                            EXPECT_GT(tensor.seconds, 0.0);
                                          }});
  EXPECT_EQ(done, total);
  EXPECT_EQ(weights, total);
  std::vector<std::string> expected;
  for (const auto& tensor : result.tensors) expected.push_back(tensor.name);
  std::sort(heard.begin(), heard.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(heard, expected);
}

TEST(Resuming, StartsAfreshForAnotherRecipeOrModel) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  quantize(dir / "model", dir / "expected", "bits=2");
  quantize_partly(dir / "model", dir / "out", 1000);
  const auto result = quantize(dir / "model", dir / "out", "bits=2");
  for (const auto& tensor : result.tensors) EXPECT_FALSE(tensor.resumed) << tensor.name;
  EXPECT_EQ(test::files_without_times(dir / "out"), test::files_without_times(dir / "expected"));

  quantize_partly(dir / "model", dir / "other", 1000);
  auto changed = test::tiny_llama();
  changed.tensor("model.norm.weight").bytes[0] ^= 1;
  changed.write(dir / "model");
  for (const auto& tensor : quantize(dir / "model", dir / "other").tensors) EXPECT_FALSE(tensor.resumed);
}

// Sums rounded in other steps have the same settings, and the same size, as others.
TEST(Resuming, StartsAfreshForAnotherVersionOfTheProgram) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  quantize_partly(dir / "model", dir / "out", 1000);
  set_program_identity("another version");
  const auto result = quantize(dir / "model", dir / "out");
  set_program_identity("");
  for (const auto& tensor : result.tensors) EXPECT_FALSE(tensor.resumed) << tensor.name;
}

TEST(Resuming, StartsAfreshForOtherStatisticsUnderTheSameSettings) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  const auto checkpoint = model::Checkpoint::open(dir / "model");
  const auto write_statistics = [&](std::uint64_t seed) {
    fs::remove(dir / "calib.h5");
    auto settings = calib::example_settings();
    settings.model_hash = checkpoint->fingerprint();
    calib::StatsWriter writer(dir / "calib.h5", settings);
    for (const auto& layer : test::layers_of(checkpoint->architecture()))
      writer.add(calib::example_layer(layer.module, layer.out, layer.in, seed++));
    writer.commit();
  };
  struct Stop {};
  const auto quantize_until = [&](const fs::path& output, double weights) {
    return quantize_model({.model = dir / "model",
                           .output = output,
                           .recipe = Recipe::parse("defaults: {bits: 2, weighting: fisher}", "recipe"),
                           .calibration = {dir / "calib.h5"},
                           .progress = [&](const auto& at) {
                             if (at.done >= weights) throw Stop();
                           }});
  };
  const auto resumed = [](const QuantizeResult& result) {
    return std::any_of(result.tensors.begin(), result.tensors.end(), [](const auto& tensor) { return tensor.resumed; });
  };
  write_statistics(1);
  EXPECT_THROW(quantize_until(dir / "out", 1000), Stop);
  write_statistics(100);
  EXPECT_FALSE(resumed(quantize_until(dir / "out", INFINITY)));
  EXPECT_THROW(quantize_until(dir / "again", 1000), Stop);
  write_statistics(100);
  EXPECT_TRUE(resumed(quantize_until(dir / "again", INFINITY))) << "another file with the same bytes";
  EXPECT_EQ(test::files_without_times(dir / "again"), test::files_without_times(dir / "out"));
}

TEST(Resuming, MakesDamagedShardsAgain) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  quantize(dir / "model", dir / "expected");
  quantize_partly(dir / "model", dir / "out", 3000);
  const auto shards = shards_in(dir / "out.partial");
  ASSERT_GE(shards.size(), 3u);
  std::size_t turn = 0;
  for (const auto& name : shards) {
    const auto path = dir / "out.partial" / "scratch" / name;
    auto bytes = test::read_file(path);
    switch (turn++ % 4) {
      case 0:
        bytes.back() = static_cast<char>(bytes.back() ^ 1);
        break;  // the hash finds it
      case 1:
        bytes.resize(bytes.size() / 2);
        break;
      case 2:
        bytes.clear();
        break;
      default:
        bytes[9] = 'x';
        break;
    }
    test::write_file(path, bytes);
  }
  quantize(dir / "model", dir / "out");
  EXPECT_EQ(test::files_without_times(dir / "out"), test::files_without_times(dir / "expected"));
}

// Run by other tests in processes of their own, which they kill or limit.
TEST(DISABLED_Child, Quantizes) { quantize(std::getenv("NIBBLE_TEST_MODEL"), std::getenv("NIBBLE_TEST_OUTPUT")); }

TEST(DISABLED_Child, RunsOutOfSpace) {
  // A limit on the size of files stands in for a full disk: write() fails in the same way.
  ASSERT_NE(::signal(SIGXFSZ, SIG_IGN), SIG_ERR);
  const rlimit small{4096, 4096};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_TRUE(test::throws_with<FormatError>(
      [] { quantize(std::getenv("NIBBLE_TEST_MODEL"), std::getenv("NIBBLE_TEST_OUTPUT")); }, "cannot write"));
}

test::ProgramRun run_child(std::string_view name, const TempDir& dir, const test::ProgramOptions& options = {}) {
  ::setenv("NIBBLE_TEST_MODEL", (dir / "model").c_str(), 1);
  ::setenv("NIBBLE_TEST_OUTPUT", (dir / "out").c_str(), 1);
  return test::run_program(fs::read_symlink("/proc/self/exe").string(),
                           {"--gtest_also_run_disabled_tests", fmt::format("--gtest_filter=DISABLED_Child.{}", name)},
                           options);
}

TEST(Resuming, SurvivesBeingKilledAtAnyMoment) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  quantize(dir / "model", dir / "expected");
  const auto expected = test::files_without_times(dir / "expected");
  Random random(17);
  SCOPED_TRACE("seed 17");
  int killed = 0;
  for (int round = 0; round < 12; ++round) {
    const auto wait = std::chrono::microseconds(1000 + random.below(120'000));
    test::ProgramOptions options;
    options.while_running = [&](pid_t child) {
      std::this_thread::sleep_for(wait);
      ::kill(child, SIGKILL);
    };
    killed += run_child("Quantizes", dir, options).exit_code == 128 + SIGKILL ? 1 : 0;
    // Under the final name there is the complete directory or nothing.
    if (!fs::exists(dir / "out")) continue;
    EXPECT_EQ(test::files_without_times(dir / "out"), expected);
    fs::remove_all(dir / "out");
  }
  EXPECT_GT(killed, 0);
  quantize(dir / "model", dir / "out");
  EXPECT_EQ(test::files_without_times(dir / "out"), expected);
}

TEST(Output, IsNotReplacedUnasked) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  quantize(dir / "model", dir / "out");
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { quantize(dir / "model", dir / "out"); }, "exists"));
  const auto before = test::files_without_times(dir / "out");
  quantize(dir / "model", dir / "out/", "bits=2", true);
  EXPECT_NE(test::files_without_times(dir / "out"), before);
  EXPECT_FALSE(fs::exists(dir / "out.replaced"));
}

// A GGUF file is a model by itself; the directory that it lies in would go as a whole.
TEST(Output, HoldsNothingThatItIsMadeFrom) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  fs::create_directories(dir / "out");
  test::write_file(dir / "out/config.json", "{}");
  test::write_calibration(dir / "out/calib.h5", dir / "model");
  const auto from = [&](const fs::path& model) {
    return test::throws_with<InvalidArgument>(
        [&] {
          quantize_model({.model = model,
                          .output = dir / "out",
                          .recipe = Recipe::parse("defaults: {bits: 2, weighting: fisher}", "recipe"),
                          .calibration = {dir / "out/calib.h5"},
                          .overwrite = true});
        },
        "lies in the output");
  };
  EXPECT_TRUE(from(dir / "model"));
  fs::rename(dir / "model", dir / "out/model");
  EXPECT_TRUE(from(dir / "out/model"));
  EXPECT_TRUE(fs::exists(dir / "out/calib.h5"));
}

TEST(Output, IsNeverTheModelOrSomethingElseOfTheUsers) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { quantize(dir / "model", dir / "model", "bits=4", true); },
                                                 "is the model itself"));
  fs::create_directories(dir / "home" / "pictures");
  test::write_file(dir / "home" / "config.json", "{}");
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { quantize(dir / "model", dir / "home", "bits=4", true); },
                                                 "is not a model directory"));
  test::write_file(dir / "file", "text");
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { quantize(dir / "model", dir / "file", "bits=4", true); },
                                                 "is not a model directory"));
  fs::create_directories(dir / "a.partial" / "pictures");
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { quantize(dir / "model", dir / "a"); }, "a.partial",
                                                 "not left from an earlier run"));
  EXPECT_TRUE(fs::exists(dir / "a.partial" / "pictures"));
}

TEST(Output, CannotBeWrittenByTwoAtOnce) {
  const TempDir dir;
  const OutputDirectory first(dir / "out", false, "x");
  EXPECT_TRUE(test::throws_with<FormatError>([&] { OutputDirectory(dir / "out", false, "x"); }, "another process"));
}

TEST(Output, OnAFullDiskLeavesNothingUnderTheName) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  const auto run = run_child("RunsOutOfSpace", dir);
  EXPECT_EQ(run.exit_code, 0) << run.out;
  EXPECT_FALSE(fs::exists(dir / "out"));
}

TEST(Output, InADirectoryThatCannotBeMadeIsAFormatError) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  test::write_file(dir / "file", "");
  EXPECT_TRUE(test::throws_with<FormatError>([&] { quantize(dir / "model", dir / "file" / "out"); }, "cannot create"));
}

}  // namespace
}  // namespace nibble::quant

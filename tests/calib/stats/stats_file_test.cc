#include "calib/stats/stats_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <limits>
#include <thread>

#include "calib/stats/derived.h"
#include "calib/stats/stats_writer.h"
#include "core/error.h"
#include "tests/calib/stats/example_stats.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::calib {
namespace {

std::vector<LayerStats> example_layers() {
  std::vector<LayerStats> layers = {example_layer("h.0.attn.c_attn", 12, 4, 1), example_layer("h.10.q", 3, 5, 2),
                                    example_layer("h.2.k", 2, 5, 3)};
  layers[2].input_of = "h.10.q";
  layers[2].sum_xxt = layers[1].sum_xxt;
  return layers;
}

void write_example(const std::filesystem::path& path) {
  StatsWriter writer(path, example_settings());
  for (LayerStats layer : example_layers()) {
    if (!layer.input_of.empty()) layer.sum_xxt = {};  // the link gives it
    writer.add(layer);
  }
  writer.commit();
}

void expect_same(const LayerStats& actual, const LayerStats& expected) {
  EXPECT_EQ(actual.module, expected.module);
  EXPECT_EQ(actual.out, expected.out);
  EXPECT_EQ(actual.in, expected.in);
  EXPECT_EQ(actual.tokens, expected.tokens);
  EXPECT_EQ(actual.samples, expected.samples);
  EXPECT_EQ(actual.input_of, expected.input_of);
  EXPECT_TRUE(test::same_bits(actual.sum_x, expected.sum_x));
  EXPECT_TRUE(test::same_bits(actual.sum_x2, expected.sum_x2));
  EXPECT_TRUE(test::same_bits(actual.sum_abs_x, expected.sum_abs_x));
  EXPECT_TRUE(test::same_bits(actual.min_x, expected.min_x));
  EXPECT_TRUE(test::same_bits(actual.max_x, expected.max_x));
  EXPECT_TRUE(test::same_bits(actual.fisher.values(), expected.fisher.values()));
  EXPECT_TRUE(test::same_bits(actual.sum_xxt.values(), expected.sum_xxt.values()));
  EXPECT_EQ(actual.sum_s, expected.sum_s);
  EXPECT_EQ(actual.sum_s2, expected.sum_s2);
  EXPECT_TRUE(test::same_bits(actual.sum_s_x, expected.sum_s_x));
  EXPECT_TRUE(test::same_bits(actual.sum_s_xxt.values(), expected.sum_s_xxt.values()));
  EXPECT_EQ(actual.sum_dydyt.rows(), expected.sum_dydyt.rows());
  EXPECT_TRUE(test::same_bits(actual.sum_dydyt.values(), expected.sum_dydyt.values()));
}

TEST(StatsWriter, ASecondOneIsRefusedAndTheFirstIsWhole) {
  const test::TempDir dir;
  {
    StatsWriter first(dir / "a.h5", example_settings());
    first.add(example_layer("of the first", 2, 3, 1));
    EXPECT_TRUE(test::throws_with<FormatError>([&] { StatsWriter(dir / "a.h5", example_settings()); },
                                               "another process is writing it"));
    first.commit();
  }
  EXPECT_EQ(StatsFile::open(dir / "a.h5")->layers()[0].module, "of the first");
  EXPECT_FALSE(std::filesystem::exists(dir / "a.h5.lock"));
}

TEST(StatsWriter, LeavesWhatCameMeanwhileWhereNothingIsToBeReplaced) {
  const test::TempDir dir;
  StatsWriter writer(dir / "a.h5", example_settings(), Replace::kNo);
  writer.add(example_layer("a layer", 2, 3, 1));
  test::write_file(dir / "a.h5", "somebody else's");
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { writer.commit(); }, "a.h5' exists; choose another"));
  EXPECT_TRUE(test::read_file(dir / "a.h5") == "somebody else's");
  EXPECT_FALSE(std::filesystem::exists(dir / "a.h5.partial"));
}

TEST(StatsWriter, WritesIntoTheFileOfALink) {
  const test::TempDir dir;
  write_example(dir / "there.h5");
  std::filesystem::create_symlink("there.h5", dir / "link.h5");
  StatsWriter writer(dir / "link.h5", example_settings());
  writer.add(example_layer("another", 2, 3, 1));
  writer.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "link.h5"));
  const auto file = StatsFile::open(dir / "there.h5");
  ASSERT_EQ(file->layers().size(), 1u);
  EXPECT_EQ(file->layers()[0].module, "another");
  EXPECT_FALSE(std::filesystem::exists(dir / "link.h5.partial"));
}

TEST(StatsFile, GivesBackWhatWasWrittenInTheOrderOfWriting) {
  const test::TempDir dir;
  write_example(dir / "calib.h5");
  const auto file = StatsFile::open(dir / "calib.h5");
  EXPECT_EQ(differences(file->settings(), example_settings()), "");
  const std::vector<LayerStats> expected = example_layers();
  ASSERT_EQ(file->layers().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(file->layers()[i].module, expected[i].module);  // not sorted: h.10 before h.2
    expect_same(file->read(expected[i].module), expected[i]);
  }
  EXPECT_FALSE(std::filesystem::exists(dir / "calib.h5.partial"));
}

TEST(StatsFile, WhatMadeItIsNoSettingAndMayBeUnsaid) {
  const test::TempDir dir;
  RunSettings settings = example_settings();
  settings.program = "1.0 a commit";
  StatsWriter writer(dir / "said.h5", settings);
  writer.add(example_layer("q", 3, 5, 1));
  writer.commit();
  write_example(dir / "unsaid.h5");
  const hid_t file = H5Fopen((dir / "unsaid.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  EXPECT_EQ(H5Aexists(file, "program"), 0) << "the bytes of files that do not say it are what they were";
  H5Fclose(file);
  const auto said = StatsFile::open(dir / "said.h5"), unsaid = StatsFile::open(dir / "unsaid.h5");
  EXPECT_EQ(said->settings().program, "1.0 a commit");
  EXPECT_EQ(unsaid->settings().program, "");
  EXPECT_EQ(differences(said->settings(), unsaid->settings()), "");
  EXPECT_EQ(describe(said->settings()), describe(unsaid->settings())) << "by which statistics are known again";
}

TEST(StatsFile, ReadsOnlyWhatIsAskedFor) {
  const test::TempDir dir;
  write_example(dir / "calib.h5");
  const LayerStats layer = StatsFile::open(dir / "calib.h5")->read("h.2.k", {.fisher = true});
  EXPECT_EQ(layer.holds(), (StatisticSet{.fisher = true}));
  EXPECT_EQ(layer.tokens, 21u);
}

TEST(StatsFile, SaysWhatAGuidedHessianIsWorthWithoutReadingIt) {
  const test::TempDir dir;
  write_example(dir / "calib.h5");
  const LayerStats written = example_layers()[2];
  EXPECT_EQ(StatsFile::open(dir / "calib.h5")->effective_tokens("h.2.k"),
            effective_tokens(written.sum_s, written.sum_s2));
  {  // NaN in the matrix would stop a reader of it
    const hid_t file = H5Fopen((dir / "calib.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t set = H5Dopen2(file, "layers/h.2.k/sum_s_xxt", H5P_DEFAULT);
    const std::vector<float> spoilt(written.in * written.in, std::numeric_limits<float>::quiet_NaN());
    ASSERT_GE(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, spoilt.data()), 0);
    H5Dclose(set);
    H5Fclose(file);
  }
  const auto spoilt = StatsFile::open(dir / "calib.h5");
  EXPECT_THROW(static_cast<void>(spoilt->read("h.2.k", {.guided_hessian = true})), FormatError);
  EXPECT_GT(spoilt->effective_tokens("h.2.k"), 0.0);
  EXPECT_TRUE(test::throws_with<FormatError>([&] { static_cast<void>(spoilt->effective_tokens("h.3.k")); }, "h.3.k"));
}

// Block layers with, the head without: its outputs are the vocabulary.
struct OutputHessianWithHead : testing::Test {
  static RunSettings settings() {
    RunSettings settings = example_settings();
    settings.head = true;
    return settings;
  }
  static LayerStats head() {
    LayerStats layer = example_layer("lm_head", 9, 4, 7);
    layer.sum_dydyt = {};
    return layer;
  }
  const test::TempDir dir;
};

TEST_F(OutputHessianWithHead, IsOfTheBlocksOnly) {
  const LayerStats block = example_layer("h.0.q", 5, 4, 6);
  {
    StatsWriter writer(dir / "calib.h5", settings());
    writer.add(block);
    writer.add(head());
    writer.commit();
  }
  const auto file = StatsFile::open(dir / "calib.h5");
  EXPECT_EQ(file->layer("h.0.q").holds, kEverything);
  StatisticSet rest = kEverything;
  rest.output_hessian = false;
  EXPECT_EQ(file->layer("lm_head").holds, rest);
  expect_same(file->read("h.0.q"), block);
  expect_same(file->read("lm_head"), head());
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { file->read("lm_head", {.output_hessian = true}); }, "'lm_head'",
                                                 "output-hessian"));
}

TEST_F(OutputHessianWithHead, IsRefusedWhereItIsNotCollected) {
  RunSettings without = settings();
  without.collected.output_hessian = false;
  StatsWriter writer(dir / "calib.h5", without);
  EXPECT_NO_THROW(writer.add(head()));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { writer.add(example_layer("h.0.q", 5, 4, 6)); }, "'h.0.q'",
                                                 "expected the statistics", "got activations"));
  StatsWriter blocks(dir / "blocks.h5", example_settings());
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { blocks.add(head()); }, "'lm_head'", "output-hessian, got"));
}

// Raw HDF5 into a plain array: a transposed matrix would survive a round trip through our own code.
TEST(StatsFile, MatricesAreRowMajorForOtherReaders) {
  const test::TempDir dir;
  write_example(dir / "calib.h5");
  const LayerStats expected = example_layers()[0];
  const hid_t file = H5Fopen((dir / "calib.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(file, "/layers/h.0.attn.c_attn/fisher", H5P_DEFAULT);
  float values[12][4];
  ASSERT_GE(H5Dread(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), 0);
  for (std::size_t r = 0; r < 12; ++r) {
    for (std::size_t c = 0; c < 4; ++c) EXPECT_EQ(values[r][c], expected.fisher(r, c));
  }
  char meaning[256] = {};
  const hid_t attribute = H5Aopen(dataset, "meaning", H5P_DEFAULT);
  const hid_t type = H5Aget_type(attribute);
  ASSERT_GE(H5Aread(attribute, type, meaning), 0);
  EXPECT_THAT(meaning, testing::StartsWith("(out, in) sum over windows of the squared gradient"));
  H5Tclose(type);
  H5Aclose(attribute);
  H5Dclose(dataset);
  H5Fclose(file);
}

TEST(StatsFile, ASharedInputIsStoredOnce) {
  const test::TempDir dir;
  write_example(dir / "calib.h5");
  const hid_t file = H5Fopen((dir / "calib.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  H5O_info_t first{}, second{};
  ASSERT_GE(H5Oget_info_by_name(file, "/layers/h.10.q/sum_xxt", &first, H5P_DEFAULT), 0);
  ASSERT_GE(H5Oget_info_by_name(file, "/layers/h.2.k/sum_xxt", &second, H5P_DEFAULT), 0);
  EXPECT_EQ(first.addr, second.addr);
  EXPECT_EQ(first.rc, 2u);
  H5Fclose(file);
}

TEST(StatsWriter, EqualContentsGiveEqualBytesAtAnotherTime) {
  const test::TempDir dir;
  write_example(dir / "first.h5");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // HDF5 would store times in seconds
  write_example(dir / "second.h5");
  EXPECT_TRUE(test::read_file(dir / "first.h5") == test::read_file(dir / "second.h5"));
}

TEST(StatsWriter, LeavesNothingWithoutCommit) {
  const test::TempDir dir;
  {
    StatsWriter writer(dir / "calib.h5", example_settings());
    writer.add(example_layers()[0]);
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(StatsWriter, WrongLayersAreRefused) {
  const test::TempDir dir;
  StatsWriter writer(dir / "calib.h5", example_settings());
  const auto refuses = [&](LayerStats layer, auto... words) {
    return test::throws_with<InvalidArgument>([&] { writer.add(layer); }, words...);
  };
  writer.add(example_layer("a", 2, 3, 1));
  EXPECT_TRUE(refuses(example_layer("a", 2, 3, 1), "'a'", "added twice"));
  EXPECT_TRUE(refuses(example_layer("b", 2, 3, 1, {.fisher = true}), "'b'", "expected the statistics", "got fisher"));
  EXPECT_TRUE(refuses(example_layer("b", 2, 3, 1, kEverything, 4), "3 windows of 7", "got 4 and 28"));
  LayerStats orphan = example_layer("b", 2, 3, 1);
  orphan.input_of = "c";
  EXPECT_TRUE(refuses(orphan, "'c'", "not there"));
  orphan = example_layer("b", 2, 4, 1);
  orphan.input_of = "a";
  EXPECT_TRUE(refuses(orphan, "'a'", "with 4 inputs"));
}

TEST(StatsWriter, AnUnwritablePlaceIsNamed) {
  EXPECT_TRUE(test::throws_with<FormatError>([] { StatsWriter("/nonexistent-directory/calib.h5", example_settings()); },
                                             "/nonexistent-directory/calib.h5"));
}

// A file size limit makes write() fail as a full disk does, but with EFBIG, once SIGXFSZ is ignored.
TEST(StatsWriter, AFullDiskIsAnErrorAndLeavesNothing) {
  const test::TempDir dir;
  const auto previous_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit previous{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &previous), 0);
  rlimit limit = previous;
  limit.rlim_cur = 64 << 10;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::error_code code;
  std::string message;
  const auto result = test::throws_with<FormatError>(
      [&] {
        try {
          StatsWriter writer(dir / "calib.h5", example_settings());
          writer.add(example_layer("large", 300, 200, 1));
          writer.commit();
        } catch (const FormatError& error) {
          code = error.code;
          message = error.what();
          throw;
        }
      },
      "calib.h5", "HDF5 says");
  setrlimit(RLIMIT_FSIZE, &previous);
  std::signal(SIGXFSZ, previous_handler);
  EXPECT_TRUE(result);
  EXPECT_EQ(code, std::errc::file_too_large);
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 0) << message;
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

}  // namespace
}  // namespace nibble::calib

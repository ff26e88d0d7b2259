#include "calib/collect/work_directory.h"

#include <gtest/gtest.h>

#include "calib/collect/residual_store.h"
#include "core/error.h"
#include "tests/calib/stats/example_stats.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::calib {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;
const Settings kSettings = {{"model_hash", "a"}, {"windows", "3"}};

LayerStats shape_of(const LayerStats& layer) { return {.module = layer.module, .out = layer.out, .in = layer.in}; }

TEST(WorkDirectory, ShardsComeBackAsTheyWere) {
  const test::TempDir dir;
  const WorkDirectory work(dir / "out.work", kSettings);
  LayerStats layer = example_layer("h.0.q", 5, 3, 1);
  layer.input_of = "h.0.k";
  EXPECT_FALSE(work.has(2, Pass::kForward));
  work.store(2, Pass::kForward, layer);
  EXPECT_TRUE(work.has(2, Pass::kForward));
  EXPECT_FALSE(work.has(2, Pass::kBackward));
  const LayerStats back = work.load(2, Pass::kForward, shape_of(layer));
  EXPECT_EQ(back.input_of, "h.0.k");
  EXPECT_EQ(back.tokens, layer.tokens);
  EXPECT_TRUE(test::same_bits(back.fisher.values(), layer.fisher.values()));
  EXPECT_TRUE(test::same_bits(back.sum_s_xxt.values(), layer.sum_s_xxt.values()));
  EXPECT_EQ(back.sum_dydyt.rows(), 5u);
  EXPECT_TRUE(test::same_bits(back.sum_dydyt.values(), layer.sum_dydyt.values()));
  EXPECT_TRUE(test::same_bits(back.sum_abs_x, layer.sum_abs_x));
  EXPECT_EQ(back.sum_s, layer.sum_s);
  EXPECT_EQ(back.sum_s2, layer.sum_s2);
}

TEST(WorkDirectory, AbsentStatisticsStayAbsent) {
  const test::TempDir dir;
  const WorkDirectory work(dir / "out.work", kSettings);
  for (const StatisticSet set : {StatisticSet{.fisher = true}, StatisticSet{.output_hessian = true}}) {
    const LayerStats layer = example_layer("h.0.q", 5, 3, 1, set);
    work.store(0, Pass::kBackward, layer);
    EXPECT_EQ(work.load(0, Pass::kBackward, shape_of(layer)).holds(), set);
  }
}

TEST(WorkDirectory, DamagedTruncatedAndForeignShardsAreRefused) {
  const test::TempDir dir;
  const WorkDirectory work(dir / "out.work", kSettings);
  const LayerStats layer = example_layer("h.0.q", 5, 3, 1);
  work.store(0, Pass::kForward, layer);
  const auto path = dir / "out.work/00000.forward.shard";
  const std::string bytes = test::read_file(path);
  const auto refused = [&](const std::string& contents, auto... words) {
    test::write_file(path, contents);
    return test::throws_with<FormatError>([&] { work.load(0, Pass::kForward, shape_of(layer)); }, "00000.forward.shard",
                                          "remove it", words...);
  };
  for (std::size_t at = bytes.size() / 2; at < bytes.size(); at += 41) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_TRUE(refused(damaged)) << at;
  }
  EXPECT_TRUE(refused(bytes.substr(0, bytes.size() - 1), "checksum"));
  EXPECT_TRUE(refused(bytes + "x", "checksum"));
  EXPECT_TRUE(refused(bytes.substr(0, 100), "ends too early"));
  EXPECT_TRUE(refused("", "ends too early"));
  EXPECT_TRUE(refused("something else entirely, of some length", "name that is too long"));
  test::write_file(path, bytes);
  EXPECT_TRUE(test::throws_with<FormatError>(
      [&] { work.load(0, Pass::kForward, {.module = "h.0.q", .out = 6, .in = 3}); }, "another layer or shape"));
  const WorkDirectory other(dir / "other.work", {{"model_hash", "b"}, {"windows", "3"}});
  std::filesystem::copy_file(path, dir / "other.work/00000.forward.shard");
  EXPECT_TRUE(test::throws_with<FormatError>([&] { other.load(0, Pass::kForward, shape_of(layer)); }, "another run"));
}

TEST(WorkDirectory, WhatAKilledRunLeftIsRemovedButNothingElse) {
  const test::TempDir dir;
  EXPECT_NO_THROW(WorkDirectory::remove_left(dir / "out.work"));
  EXPECT_FALSE(std::filesystem::exists(dir / "out.work"));
  const auto leave = [&] {
    WorkDirectory(dir / "out.work", kSettings).store(0, Pass::kForward, example_layer("h.0.q", 5, 3, 1));
    test::write_file(dir / "out.work/boundary.0001.residual", "any");
    test::write_file(dir / "out.work/00001.forward.shard.partial", "any");
  };
  leave();
  {
    const WorkDirectory at_work(dir / "out.work", kSettings);
    WorkDirectory::remove_left(dir / "out.work");
    EXPECT_TRUE(at_work.has(0, Pass::kForward));
  }
  WorkDirectory::remove_left(dir / "out.work");
  EXPECT_FALSE(std::filesystem::exists(dir / "out.work"));
  leave();
  test::write_file(dir / "out.work/thesis.txt", "somebody's");
  WorkDirectory::remove_left(dir / "out.work");
  EXPECT_EQ(test::read_file(dir / "out.work/thesis.txt"), "somebody's");
  EXPECT_FALSE(std::filesystem::exists(dir / "out.work/00000.forward.shard"));
}

TEST(WorkDirectory, OtherSettingsAreRefusedNamingWhatDiffers) {
  const test::TempDir dir;
  WorkDirectory(dir / "out.work", kSettings).store(0, Pass::kForward, example_layer("h.0.q", 5, 3, 1));
  EXPECT_NO_THROW(WorkDirectory(dir / "out.work", kSettings));
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] {
        WorkDirectory(dir / "out.work", {{"model_hash", "b"}, {"windows", "3"}});
      },
      "model_hash: 'a' then, 'b' now", "out.work"));
}

TEST(WorkDirectory, NothingIsLeftWhereNothingWasFinished) {
  const test::TempDir dir;
  { const WorkDirectory work(dir / "out.work", kSettings); }
  EXPECT_FALSE(std::filesystem::exists(dir / "out.work"));
  std::filesystem::create_directory(dir / "out.work");  // a run that was killed right away
  EXPECT_NO_THROW(WorkDirectory(dir / "out.work", kSettings));
  std::filesystem::create_directory(dir / "out.work");  // and one that was killed a moment later
  test::write_file(dir / "out.work/lock", "");
  test::write_file(dir / "out.work/settings.json", "{\"model_hash\": \"other\"}");
  EXPECT_NO_THROW(WorkDirectory(dir / "out.work", kSettings));
  EXPECT_FALSE(std::filesystem::exists(dir / "out.work"));
}

TEST(WorkDirectory, ADirectoryOfSomebodyElseIsRefusedAndStays) {
  for (const std::string name : {"notes.txt", "settings.json", "00000.forward.shard"}) {
    SCOPED_TRACE(name);
    const test::TempDir dir;
    std::filesystem::create_directory(dir / "out.work");
    test::write_file(dir / "out.work" / name, "somebody's");
    EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { WorkDirectory(dir / "out.work", kSettings); }, "out.work",
                                                   "not left from an earlier run", "choose another -o"));
    WorkDirectory::remove_left(dir / "out.work");
    EXPECT_EQ(test::read_file(dir / "out.work" / name), "somebody's");
    EXPECT_FALSE(std::filesystem::exists(dir / "out.work/lock"));
  }
}

TEST(WorkDirectory, WhatSomebodyPutThereMeanwhileStays) {
  const test::TempDir dir;
  const std::vector<std::string> foreign = {"notes.txt",      "data.shard",       "a.residual",           "x.partial",
                                            "settings.json~", "1b.forward.shard", "boundary.12.residual2"};
  for (const bool finished : {false, true}) {
    SCOPED_TRACE(finished);
    {
      WorkDirectory work(dir / "out.work", kSettings);
      for (const std::string& name : foreign) test::write_file(dir / "out.work" / name, "somebody's");
      std::filesystem::create_directory(dir / "out.work/00007.forward.shard");
      if (!finished) continue;  // the destructor cleans up
      work.store(0, Pass::kForward, example_layer("h.0.q", 5, 3, 1));
      work.remove();
    }
    for (const std::string& name : foreign) EXPECT_EQ(test::read_file(dir / "out.work" / name), "somebody's") << name;
    EXPECT_TRUE(std::filesystem::is_directory(dir / "out.work/00007.forward.shard"));
    EXPECT_FALSE(std::filesystem::exists(dir / "out.work/00000.forward.shard"));
    EXPECT_FALSE(std::filesystem::exists(dir / "out.work/settings.json"));
    EXPECT_FALSE(std::filesystem::exists(dir / "out.work/lock"));
    std::filesystem::remove_all(dir / "out.work");
  }
}

TEST(WorkDirectory, OneProcessAtATime) {
  const test::TempDir dir;
  const WorkDirectory work(dir / "out.work", kSettings);
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { WorkDirectory(dir / "out.work", kSettings); },
                                                 "another calibration is at work"));
}

TEST(WorkDirectory, AnImpossiblePlaceIsNamed) {
  EXPECT_TRUE(test::throws_with<FormatError>([] { WorkDirectory("/nonexistent/out.work", kSettings); },
                                             "/nonexistent/out.work"));
}

// 5 rows of 3, in batches of 2: the last is shorter.
struct ResidualStores : testing::TestWithParam<bool> {
  const test::TempDir dir;
  const ResidualShape shape{5, 3, 2};
  std::unique_ptr<ResidualStore> make(const std::string& identity = "run") const {
    return GetParam() ? make_file_store(shape, dir.path(), identity) : make_memory_store(shape);
  }
  void fill(ResidualStore& store, const std::string& name, float offset, std::size_t batches) const {
    for (std::size_t batch = 0; batch < batches; ++batch) {
      Matrix<float> values(batch == 2 ? 1 : 2, 3);
      for (std::size_t i = 0; i < values.size(); ++i) values.data()[i] = offset + static_cast<float>(10 * batch + i);
      store.write(name, batch, values.view());
    }
  }
};
INSTANTIATE_TEST_SUITE_P(MemoryAndFile, ResidualStores, testing::Bool(),
                         [](const auto& instance) { return instance.param ? "file" : "memory"; });

TEST_P(ResidualStores, GiveBackWhatWasWritten) {
  const auto store = make();
  EXPECT_FALSE(store->holds("a"));
  fill(*store, "a", 0.5f, 3);
  fill(*store, "b", 1000.0f, 3);
  EXPECT_TRUE(store->holds("a"));
  Matrix<float> values(2, 3), last(1, 3);
  store->read("a", 1, values);
  EXPECT_EQ(values(1, 2), 15.5f);
  store->read("b", 2, last);
  EXPECT_EQ(last(0, 0), 1020.0f);
  store->drop("a");
  EXPECT_FALSE(store->holds("a"));
  EXPECT_TRUE(store->holds("b"));
}

// Views into a wider matrix, whose other columns are neither stored nor touched.
TEST_P(ResidualStores, HonourStrides) {
  const auto store = make();
  Matrix<float> wide(5, 7);
  for (std::size_t i = 0; i < wide.size(); ++i) wide.data()[i] = static_cast<float>(i);
  const auto middle = [](Matrix<float>& from, std::size_t batch) {
    return from.view().block(2 * batch, 2, batch < 2 ? 2 : 1, 3);
  };
  for (std::size_t batch = 0; batch < 3; ++batch) store->write("a", batch, middle(wide, batch));
  EXPECT_TRUE(store->holds("a"));
  Matrix<float> back(5, 7);
  for (float& value : back.values()) value = -1.0f;
  for (std::size_t batch = 0; batch < 3; ++batch) store->read("a", batch, middle(back, batch));
  for (std::size_t r = 0; r < 5; ++r)
    for (std::size_t c = 0; c < 7; ++c) EXPECT_EQ(back(r, c), c >= 2 && c < 5 ? wide(r, c) : -1.0f) << r << ", " << c;
}

TEST_P(ResidualStores, AreNotCompleteBeforeTheLastBatch) {
  const auto store = make();
  fill(*store, "a", 0.0f, 2);
  EXPECT_FALSE(store->holds("a"));
}

TEST_P(ResidualStores, RefuseBatchesOfAnotherShape) {
  const auto store = make();
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { store->write("a", 2, Matrix<float>(2, 3).view()); }, "batch 2"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { store->write("a", 0, Matrix<float>(2, 4).view()); }, "(2, 4)"));
}

struct FileStore : ResidualStores {};
INSTANTIATE_TEST_SUITE_P(File, FileStore, testing::Values(true));

TEST_P(FileStore, OutlivesItsProcess) {
  fill(*make(), "a", 0.0f, 3);
  EXPECT_TRUE(make()->holds("a"));
}

TEST_P(FileStore, IncompleteDamagedAndForeignFilesAreMadeAnew) {
  fill(*make(), "a", 0.0f, 2);
  EXPECT_FALSE(make()->holds("a"));
  fill(*make(), "a", 0.0f, 3);
  EXPECT_FALSE(make("another run")->holds("a"));
  fill(*make(), "a", 0.0f, 3);
  std::string bytes = test::read_file(dir / "a.residual");
  bytes[30] = static_cast<char>(bytes[30] ^ 4);
  test::write_file(dir / "a.residual", bytes);
  EXPECT_FALSE(make()->holds("a"));
  EXPECT_FALSE(std::filesystem::exists(dir / "a.residual"));
}

TEST_P(FileStore, DamageDuringTheRunIsNoticed) {
  const auto store = make();
  fill(*store, "a", 0.0f, 3);
  std::filesystem::resize_file(dir / "a.residual", 70);
  Matrix<float> values(2, 3);
  EXPECT_TRUE(
      test::throws_with<FormatError>([&] { store->read("a", 1, values); }, "a.residual", "batch 1", "made anew"));
}

}  // namespace
}  // namespace nibble::calib

#include "calib/stats/merge_stats.h"

#include <gtest/gtest.h>

#include <array>

#include "calib/stats/stats_file.h"
#include "calib/stats/stats_writer.h"
#include "core/error.h"
#include "tests/calib/stats/example_stats.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::calib {
namespace {

RunSettings part_settings(std::uint64_t seed) {
  RunSettings settings = example_settings();
  settings.seeds = {seed};
  settings.windows_hash = fmt::format("windows of seed {}", seed);
  return settings;
}

void write_part(const std::filesystem::path& path, std::uint64_t seed) {
  StatsWriter writer(path, part_settings(seed));
  LayerStats q = example_layer("q", 6, 5, 10 * seed), k = example_layer("k", 2, 5, 10 * seed + 1);
  k.input_of = q.module;
  k.sum_xxt = q.sum_xxt;
  writer.add(q);
  writer.add(k);
  writer.commit();
}

TEST(MergeStats, SumsTheFilesAndKeepsSharedInputs) {
  const test::TempDir dir;
  std::array<std::filesystem::path, 3> inputs;
  std::vector<std::shared_ptr<const StatsFile>> parts;
  for (std::uint64_t i = 0; i < 3; ++i) {
    inputs[i] = dir / fmt::format("part{}", i);
    write_part(inputs[i], i + 1);
    parts.push_back(StatsFile::open(inputs[i]));
  }
  merge_stats(inputs, dir / "merged.h5");
  const auto merged = StatsFile::open(dir / "merged.h5");
  EXPECT_EQ(merged->settings().windows, 9u);
  EXPECT_EQ(merged->settings().seeds, (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(merged->settings().text_hash, "text");
  EXPECT_NE(merged->settings().windows_hash, parts[0]->settings().windows_hash);
  EXPECT_EQ(merged->layer("k").input_of, "q");
  for (const char* module : {"q", "k"}) {
    const LayerStats sum = merged->read(module);
    EXPECT_EQ(sum.tokens, 63u);
    for (std::size_t e = 0; e < sum.fisher.size(); ++e) {
      double exact = 0.0, magnitudes = 0.0;
      for (const auto& part : parts) {
        const auto value = static_cast<double>(part->read(module).fisher.data()[e]);
        exact += value;  // three floats of like size: exact in double
        magnitudes += std::abs(value);
      }
      EXPECT_TRUE(test::near(static_cast<double>(sum.fisher.data()[e]), exact, {.abs = 0x1p-24 * magnitudes}));
    }
    EXPECT_EQ(sum.sum_dydyt.rows(), sum.out);
    for (std::size_t e = 0; e < sum.sum_dydyt.size(); ++e) {
      double exact = 0.0, magnitudes = 0.0;
      for (const auto& part : parts) {
        const auto value = static_cast<double>(part->read(module).sum_dydyt.data()[e]);
        exact += value;
        magnitudes += std::abs(value);
      }
      EXPECT_TRUE(test::near(static_cast<double>(sum.sum_dydyt.data()[e]), exact, {.abs = 0x1p-24 * magnitudes}));
    }
    for (std::size_t i = 0; i < 5; ++i) {
      double exact = 0.0;
      for (const auto& part : parts) exact += part->read(module).sum_x[i];
      EXPECT_EQ(sum.sum_x[i], exact);
    }
  }
}

// The head has no output Hessian, the layers of the blocks have.
TEST(MergeStats, FilesWithTheHeadMerge) {
  const test::TempDir dir;
  const std::array inputs = {dir / "a.h5", dir / "b.h5"};
  for (std::uint64_t i = 0; i < 2; ++i) {
    RunSettings settings = part_settings(i + 1);
    settings.head = true;
    StatsWriter writer(inputs[i], settings);
    LayerStats head = example_layer("lm_head", 7, 5, 20 + i);
    head.sum_dydyt = {};
    writer.add(example_layer("q", 6, 5, 10 + i));
    writer.add(head);
    writer.commit();
  }
  merge_stats(inputs, dir / "merged.h5");
  const auto merged = StatsFile::open(dir / "merged.h5"), a = StatsFile::open(inputs[0]),
             b = StatsFile::open(inputs[1]);
  EXPECT_TRUE(merged->layer("q").holds.output_hessian);
  EXPECT_FALSE(merged->layer("lm_head").holds.output_hessian);
  for (std::size_t e = 0; e < 36; ++e)  // two floats: exact in double, rounded once
    EXPECT_EQ(merged->read("q").sum_dydyt.data()[e],
              a->read("q").sum_dydyt.data()[e] + b->read("q").sum_dydyt.data()[e]);
  EXPECT_EQ(merged->read("lm_head").fisher(6, 4), a->read("lm_head").fisher(6, 4) + b->read("lm_head").fisher(6, 4));
}

TEST(MergeStats, SettingsThatDifferAreNamed) {
  const RunSettings a = part_settings(1);
  const auto refuses = [&](auto change, auto... words) {
    RunSettings b = part_settings(2);
    change(b);
    const std::array both = {a, b};
    return test::throws_with<InvalidArgument>([&] { merged_settings(both); }, words...);
  };
  EXPECT_TRUE(refuses([](RunSettings& b) { b.model_hash = "other"; }, "model_hash: 'model' against 'other'"));
  EXPECT_TRUE(refuses([](RunSettings& b) { b.tokenizer_hash = "other"; }, "tokenizer_hash"));
  EXPECT_TRUE(refuses([](RunSettings& b) { b.window_tokens = 8; }, "window_tokens: '7' against '8'"));
  EXPECT_TRUE(refuses([](RunSettings& b) { b.sampling = "consecutive windows"; }, "sampling"));
  EXPECT_TRUE(refuses([](RunSettings& b) { b.sampling += kBehindBos; }, "sampling", "behind the BOS"));
  EXPECT_TRUE(refuses([](RunSettings& b) { b.flavour = FisherFlavour::kPosition; }, "flavour", "position"));
  EXPECT_TRUE(refuses([](RunSettings& b) { b.labels = Labels::kSampled; }, "labels", "sampled"));
  EXPECT_TRUE(refuses([](RunSettings& b) { b.guide = Guide::kWhitened; }, "guide", "whitened"));
  EXPECT_TRUE(refuses([](RunSettings& b) { b.centre = "means"; }, "centre"));
  EXPECT_TRUE(refuses([](RunSettings& b) { b.head = true; }, "head"));
  EXPECT_TRUE(refuses([](RunSettings& b) { b.collected.fisher = false; }, "collected"));
  EXPECT_TRUE(refuses([](RunSettings& b) { b.collected.output_hessian = false; }, "collected"));
  EXPECT_TRUE(refuses([](RunSettings& b) { b.windows_hash = part_settings(1).windows_hash; }, "same windows"));
  EXPECT_TRUE(refuses(
      [](RunSettings& b) {
        b.seeds = {7, part_settings(1).seeds[0]};
      },
      "same text and seed", "--extend"));
  std::array behind = {part_settings(1), part_settings(2)};
  for (RunSettings& part : behind) part.sampling += kBehindBos;
  EXPECT_NO_THROW(merged_settings(behind));
  behind[1].seeds = behind[0].seeds;
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { merged_settings(behind); }, "same text and seed"));
}

TEST(MergeStats, TextWindowsSeedsAndKernelsMayDiffer) {
  RunSettings a = part_settings(1), b = part_settings(2);
  b.text_hash = "other text";
  b.windows = 100;
  b.kernels = "faster";
  const RunSettings merged = merged_settings(std::array{a, b});
  EXPECT_EQ(merged.windows, 103u);
  EXPECT_EQ(merged.kernels, "faster + kernels");
  EXPECT_NE(merged.text_hash, a.text_hash);
}

TEST(MergeStats, SaysOnceWhichProgramsMadeThePartsAndWarnsOfSeveral) {
  const auto made_by = [](std::uint64_t seed, const std::string& program) {
    RunSettings settings = part_settings(seed);
    settings.program = program;
    return settings;
  };
  const RunSettings a = made_by(1, "1.0 a"), b = made_by(2, "1.0 b"), before = made_by(3, "");
  const RunSettings both = merged_settings(std::array{b, a});
  EXPECT_EQ(both.program, "1.0 a + 1.0 b");
  EXPECT_EQ(merged_settings(std::array{both, made_by(4, "1.0 b"), before}).program, "1.0 a + 1.0 b + unknown");
  EXPECT_EQ(merged_settings(std::array{a, made_by(2, "1.0 a")}).program, "1.0 a");
  EXPECT_EQ(merged_settings(std::array{before, made_by(4, "")}).program, "");

  EXPECT_EQ(warning_of_programs(std::array{a, made_by(2, "1.0 a")}), std::nullopt);
  EXPECT_EQ(warning_of_programs(std::array{before, before}), std::nullopt) << "as before files said it";
  const auto words = [](const auto& parts) { return warning_of_programs(parts).value_or(""); };
  EXPECT_NE(words(std::array{b, a, before}).find("('1.0 a', '1.0 b', 'unknown')"), std::string::npos);
  EXPECT_NE(words(std::array{a, both}).find("('1.0 a', '1.0 b')"), std::string::npos);
}

TEST(MergeStats, AnOutputSaysWhichProgramsMadeItsPartsUnderSettingsOfTheCallerToo) {
  const test::TempDir dir;
  const std::array inputs = {dir / "a.h5", dir / "b.h5"};
  std::vector<RunSettings> parts;
  for (std::uint64_t i = 0; i < 2; ++i) {
    parts.push_back(part_settings(i + 1));
    parts.back().program = fmt::format("1.0 {}", i);
    StatsWriter writer(inputs[i], parts.back());
    writer.add(example_layer("q", 6, 5, i));
    writer.commit();
    EXPECT_EQ(StatsFile::open(inputs[i])->settings().program, parts.back().program);
  }
  RunSettings settings = merged_settings(parts);
  settings.program = "1.0 1";
  merge_stats(inputs, settings, dir / "merged.h5");
  EXPECT_EQ(StatsFile::open(dir / "merged.h5")->settings().program, "1.0 0 + 1.0 1");
}

TEST(MergeStats, OneFileIsNotEnough) {
  EXPECT_TRUE(test::throws_with<InvalidArgument>([] { merged_settings(std::array{part_settings(1)}); }, "at least 2"));
}

TEST(MergeStats, OtherLayersAreRefusedAndNothingIsWritten) {
  const test::TempDir dir;
  write_part(dir / "a.h5", 1);
  {
    StatsWriter writer(dir / "b.h5", part_settings(2));
    writer.add(example_layer("q", 6, 5, 1));
    writer.commit();
  }
  const std::array inputs = {dir / "a.h5", dir / "b.h5"};
  EXPECT_TRUE(
      test::throws_with<InvalidArgument>([&] { merge_stats(inputs, dir / "c.h5"); }, "b.h5", "1 layers", "holds 2"));
  EXPECT_FALSE(std::filesystem::exists(dir / "c.h5"));
  EXPECT_FALSE(std::filesystem::exists(dir / "c.h5.partial"));
}

TEST(MergeStats, AnOutputThatIsThereIsNotReplaced) {
  const test::TempDir dir;
  write_part(dir / "a.h5", 1);
  write_part(dir / "b.h5", 2);
  test::write_file(dir / "c.h5", "somebody else's");
  const std::array inputs = {dir / "a.h5", dir / "b.h5"};
  EXPECT_TRUE(
      test::throws_with<InvalidArgument>([&] { merge_stats(inputs, dir / "c.h5"); }, "c.h5' exists; choose another"));
  EXPECT_TRUE(test::read_file(dir / "c.h5") == "somebody else's");
  EXPECT_FALSE(std::filesystem::exists(dir / "c.h5.partial"));
  EXPECT_FALSE(std::filesystem::exists(dir / "c.h5.lock"));
}

}  // namespace
}  // namespace nibble::calib

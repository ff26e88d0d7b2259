#include "core/files/output_directory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble {
namespace {

std::vector<std::string> names_in(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

void make(const std::filesystem::path& path, std::string_view config) {
  OutputDirectory directory(path, true, "a run");
  directory.add_text("config.json", config);
  directory.publish();
}

TEST(OutputDirectory, TheNameAppearsOnlyWhenAllIsWritten) {
  const test::TempDir dir;
  OutputDirectory directory(dir / "model", false, "a run");
  directory.add_text("config.json", "{}");
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"model.partial"});
  directory.publish();
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"model"});
  EXPECT_EQ(names_in(dir / "model"), std::vector<std::string>{"config.json"});
}

TEST(OutputDirectory, OneThatIsReplacedIsThereUntilThenAndGoneAfterwards) {
  const test::TempDir dir;
  make(dir / "model", "old");
  test::write_file(dir / "model/of the old one", "");
  OutputDirectory directory(dir / "model", true, "another run");
  directory.add_text("config.json", "new");
  EXPECT_EQ(test::read_file(dir / "model/config.json"), "old");
  directory.publish();
  EXPECT_EQ(test::read_file(dir / "model/config.json"), "new");
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"model"});
  EXPECT_EQ(names_in(dir / "model"), std::vector<std::string>{"config.json"});
}

// Killed between changing the names and removing what was replaced.
TEST(OutputDirectory, WhatAKilledRunReplacedIsClearedByTheNext) {
  const test::TempDir dir;
  make(dir / "model", "new");
  make(dir / "old", "old");
  std::filesystem::rename(dir / "old", dir / "model.partial");
  make(dir / "model", "newest");
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"model"});
  EXPECT_EQ(test::read_file(dir / "model/config.json"), "newest");
}

TEST(OutputDirectory, OnlyWorkOfTheSameFingerprintIsGoneOnWith) {
  const test::TempDir dir;
  const auto left_by = [&](const std::optional<std::string>& fingerprint) {
    OutputDirectory(dir / "model", false, fingerprint).add_text("tokenizer.json", "of the run before");
  };
  const auto finds_it = [&](const std::optional<std::string>& fingerprint) {
    const OutputDirectory next(dir / "model", false, fingerprint);
    return std::filesystem::exists(next.partial() / "tokenizer.json");
  };
  left_by("a run");
  EXPECT_TRUE(finds_it("a run"));
  EXPECT_FALSE(finds_it("another run"));
  left_by("a run");
  EXPECT_FALSE(finds_it(std::nullopt));
  left_by(std::nullopt);
  EXPECT_FALSE(finds_it(std::nullopt));
  left_by(std::nullopt);
  EXPECT_FALSE(finds_it("a run"));
}

// As while publish() of another process, its lock file gone, changes the names.
TEST(OutputDirectory, OneThatIsBeingPublishedIsLockedStill) {
  const test::TempDir dir;
  {
    OutputDirectory directory(dir / "model", false, "a run");
    directory.add_text("config.json", "finished");
    std::filesystem::remove(dir / "model.partial/lock");
    std::filesystem::remove_all(directory.scratch());
    EXPECT_TRUE(test::throws_with<FormatError>([&] { make(dir / "model", "new"); }, "another process is writing it"));
    EXPECT_EQ(names_in(dir / "model.partial"), std::vector<std::string>{"config.json"});
    std::filesystem::rename(dir / "model.partial", dir / "model");
    EXPECT_EQ(test::read_file(dir / "model/config.json"), "finished");
  }
  make(dir / "model", "new");
  EXPECT_EQ(test::read_file(dir / "model/config.json"), "new");
}

TEST(OutputDirectory, WhatIsNoModelIsNeverReplaced) {
  const test::TempDir dir;
  test::write_file(dir / "model", "a file of somebody's");
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { make(dir / "model", "new"); }, "is not a model directory"));
  EXPECT_EQ(test::read_file(dir / "model"), "a file of somebody's");
}

}  // namespace
}  // namespace nibble

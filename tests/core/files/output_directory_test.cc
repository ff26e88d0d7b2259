#include "core/files/output_directory.h"

#include <gtest/gtest.h>
#include <unistd.h>

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
  directory.add_text("model.safetensors", "");
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

// A later run would clear it as what a killed one left.
TEST(OutputDirectory, NamesOfUnfinishedOutputsAreNoOutputs) {
  const test::TempDir dir;
  for (const char* name : {"model.partial", "model.replaced", "model.partial/"})
    EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { OutputDirectory(dir / name, true, "a run"); }, "unfinished"));
  EXPECT_TRUE(names_in(dir.path()).empty());
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
    directory.add_text("model.safetensors", "");
    std::filesystem::remove(dir / "model.partial/lock");
    std::filesystem::remove_all(directory.scratch());
    EXPECT_TRUE(test::throws_with<FormatError>([&] { make(dir / "model", "new"); }, "another process is writing it"));
    EXPECT_EQ(names_in(dir / "model.partial"), (std::vector<std::string>{"config.json", "model.safetensors"}));
    std::filesystem::rename(dir / "model.partial", dir / "model");
    EXPECT_EQ(test::read_file(dir / "model/config.json"), "finished");
  }
  make(dir / "model", "new");
  EXPECT_EQ(test::read_file(dir / "model/config.json"), "new");
}

TEST(OutputDirectory, WhatIsNoModelIsNeverReplaced) {
  const test::TempDir dir;
  std::filesystem::create_directories(dir / "settings");
  test::write_file(dir / "settings/config.json", "{}");
  test::write_file(dir / "settings/thesis.doc", "of somebody");
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { make(dir / "settings", "new"); }, "is not a model directory"));
  EXPECT_EQ(test::read_file(dir / "settings/thesis.doc"), "of somebody");
  test::write_file(dir / "model", "a file of somebody's");
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { make(dir / "model", "new"); }, "is not a model directory"));
  EXPECT_EQ(test::read_file(dir / "model"), "a file of somebody's");
}

TEST(OutputDirectory, WhatComesUnderItsNameMeanwhileStaysAndTheWorkTooIsKept) {
  const test::TempDir dir;
  for (const bool overwrite : {false, true}) {
    if (overwrite) make(dir / "model", "old");
    {
      OutputDirectory directory(dir / "model", overwrite, "a run");
      directory.add_text("config.json", "new");
      test::write_file(directory.scratch() / "finished", "hours of work");
      std::filesystem::create_directories(dir / "model/precious");
      EXPECT_TRUE(test::throws_with<InvalidArgument>(
          [&] { directory.publish(); }, overwrite ? "is not a model directory" : "exists; choose another"));
    }
    EXPECT_TRUE(std::filesystem::exists(dir / "model/precious"));
    std::filesystem::remove_all(dir / "model");
    OutputDirectory again(dir / "model", overwrite, "a run");
    EXPECT_TRUE(std::filesystem::exists(again.scratch() / "finished"));
    again.publish();
    EXPECT_EQ(test::read_file(dir / "model/config.json"), "new");
    std::filesystem::remove_all(dir / "model");
  }
}

// What the link leads to may be somebody else's too.
TEST(OutputDirectory, ALinkIsReplacedAndWhatItLeadsToStays) {
  const test::TempDir dir;
  make(dir / "v1", "old");
  test::write_file(dir / "v1/notes.txt", "of somebody");
  std::filesystem::create_directory_symlink("v1", dir / "current");
  make(dir / "current", "new");
  EXPECT_EQ(test::read_file(dir / "current/config.json"), "new");
  EXPECT_EQ(test::read_file(dir / "v1/config.json"), "old");
  EXPECT_EQ(names_in(dir / "v1"), (std::vector<std::string>{"config.json", "model.safetensors", "notes.txt"}));
  EXPECT_EQ(names_in(dir.path()), (std::vector<std::string>{"current", "v1"}));
}

TEST(OutputDirectory, AStrangerWhereTheReplacedOneGoesIsRefusedBeforeAnyWork) {
  const test::TempDir dir;
  make(dir / "model", "old");
  std::filesystem::create_directories(dir / "model.replaced/of somebody");
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { const OutputDirectory directory(dir / "model", true); },
                                                 "model.replaced' is not left from an earlier run"));
  EXPECT_EQ(names_in(dir.path()), (std::vector<std::string>{"model", "model.replaced"}));
  std::filesystem::remove_all(dir / "model");
  EXPECT_NO_THROW(make(dir / "model", "new")) << "nothing is replaced";
  // Killed while it removed what was replaced: config.json went first.
  std::filesystem::remove_all(dir / "model.replaced/of somebody");
  test::write_file(dir / "model.replaced/lock", "");
  test::write_file(dir / "model.replaced/model.safetensors", "");
  make(dir / "model", "newest");
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"model"});
}

// While one lives, the process has the rights of a user without a name: root is refused nothing by permissions.
class AsNobody {
 public:
  AsNobody() : was_root_(::geteuid() == 0), changed_(!was_root_ || ::setresuid(kNobody, kNobody, 0) == 0) {}
  ~AsNobody() {
    if (!was_root_ || !changed_) return;
    EXPECT_EQ(::setresuid(0, 0, 0), 0);
  }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;
  static constexpr ::uid_t kNobody = 65534;
  bool reaches(const std::filesystem::path& path) const { return changed_ && ::access(path.c_str(), X_OK) == 0; }

 private:
  bool was_root_, changed_;
};

TEST(OutputDirectory, OneThatMayNotBeReplacedIsRefusedBeforeAnyWork) {
  const test::TempDir dir;
  make(dir / "model", "old");
  make(dir / "other", "old");
  std::filesystem::rename(dir / "other", dir / "model.replaced");
  for (const auto& path : {dir.path(), dir / "model", dir / "model.replaced"})
    if (::geteuid() == 0 && ::chown(path.c_str(), AsNobody::kNobody, AsNobody::kNobody) != 0)
      GTEST_SKIP() << "there is no other user here";
  if (!AsNobody().reaches(dir / "model")) GTEST_SKIP() << "no other user may be here";
  for (const char* locked : {"model", "model.replaced"}) {
    std::filesystem::permissions(dir / locked, std::filesystem::perms(0555));
    {
      const AsNobody nobody;
      EXPECT_TRUE(test::throws_with<FormatError>([&] { OutputDirectory(dir / "model", true, "a run"); },
                                                 std::string(locked) + "'", "Permission denied"));
    }
    std::filesystem::permissions(dir / locked, std::filesystem::perms(0755));
  }
  EXPECT_EQ(names_in(dir.path()), (std::vector<std::string>{"model", "model.replaced"}));
  EXPECT_EQ(test::read_file(dir / "model/config.json"), "old");
}

TEST(OutputDirectory, WhatFailedIsDiscardedWhole) {
  const test::TempDir dir;
  {
    OutputDirectory directory(dir / "model", false, "a run");
    directory.add_text("config.json", "{}");
    test::write_file(directory.scratch() / "work", "x");
    directory.discard();
  }
  EXPECT_TRUE(names_in(dir.path()).empty());
}

TEST(OutputDirectory, InputsInItAreRefusedHoweverTheyAreNamed) {
  const test::TempDir dir;
  make(dir / "model", "{}");
  test::write_file(dir / "models.h5", "");
  const auto require = [&](const std::filesystem::path& input) {
    const std::filesystem::path inputs[] = {dir / "models.h5", input};
    require_inputs_outside(dir / "model/", inputs);
  };
  EXPECT_NO_THROW(require(dir / "model.gguf"));
  EXPECT_NO_THROW(require(dir.path()));
  std::filesystem::create_directory_symlink("model", dir / "link");
  for (const auto& input : {dir / "model/a.gguf", dir / "model/../model/a.gguf", dir / "link/a.gguf"})
    EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { require(input); }, "a.gguf' lies in the output"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { require(dir / "link"); }, "is an input itself"));
}

TEST(OutputDirectory, APathIsNotEmpty) {
  constexpr const char* kExpected = "expected a path, got ''";
  const std::vector<std::filesystem::path> nameless = {""};
  EXPECT_TRUE(test::throws_with<InvalidArgument>([] { OutputDirectory("", true, "a run"); }, kExpected));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { require_inputs_outside("model", nameless); }, kExpected));
}

}  // namespace
}  // namespace nibble

#include <gmock/gmock.h>

#include "tests/cli/nibble.h"

namespace nibble::test {
namespace {

using testing::HasSubstr;

struct Tokenize : testing::Test {
  TempDir temp;
  std::string text = temp / "text.txt";
  std::string directory = demo_path("gpt2-demo");
  Tokenize() { write_file(text, "The old house stood by the sea, and nobody went there."); }
};

TEST_F(Tokenize, JsonHasTheCountAndOnRequestTheIds) {
  const auto counted = nibble_json({"tokenize", directory, "--text", text});
  EXPECT_GT(counted["tokens"], 5);
  EXPECT_EQ(counted["bytes"], 54);
  EXPECT_FALSE(counted.contains("ids"));
  for (const char* key : {"megabytes_per_second", "tokenizer_hash", "text_hash"}) EXPECT_TRUE(counted.contains(key));

  const auto listed = nibble_json({"tokenize", directory, "--text", text, "--ids"});
  EXPECT_EQ(listed["ids"].size(), counted["tokens"]);
}

TEST_F(Tokenize, WritesTokenFilesOfBothWidths) {
  const auto ids = nibble_json({"tokenize", directory, "--text", text, "--ids", "-o", temp / "a.u16"})["ids"];
  ASSERT_EQ(nibble({"tokenize", directory, "--text", text, "-o", temp / "a.u32"}).exit_code, 0);
  for (const std::size_t width : {2u, 4u}) {
    const std::string bytes = read_file(temp / (width == 2 ? "a.u16" : "a.u32"));
    ASSERT_EQ(bytes.size(), width * ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      unsigned id = 0;
      for (std::size_t b = 0; b < width; ++b) id |= unsigned{static_cast<unsigned char>(bytes[width * i + b])} << 8 * b;
      EXPECT_EQ(id, ids[i]);
    }
  }
}

TEST_F(Tokenize, HumanOutputNamesItsUnits) {
  const ProgramRun run = nibble({"tokenize", directory, "--text", text});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, HasSubstr(" tokens from 54 bytes ("));
  EXPECT_THAT(run.out, HasSubstr(" MB/s\n"));
}

TEST_F(Tokenize, TakesNoThreadsSinceItWorksOnOne) {
  const ProgramRun run = nibble({"tokenize", directory, "--text", text, "--threads", "1"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("unknown option '--threads'"));
  EXPECT_EQ(nibble({"tokenize", "--help"}).out.find("--threads"), std::string::npos);
}

TEST_F(Tokenize, ShowsNoProgressThatCouldBeLeftOut) {
  const ProgramRun run = nibble({"tokenize", directory, "--text", text, "-q"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("-q"));
}

TEST_F(Tokenize, BadInputsHaveTheirExitCodes) {
  const ProgramRun missing = nibble({"tokenize", directory, "--text", temp / "nothing.txt"});
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_THAT(missing.err, HasSubstr("nothing.txt"));

  const ProgramRun no_tokenizer = nibble({"tokenize", temp.path().string(), "--text", text});
  EXPECT_EQ(no_tokenizer.exit_code, 3);
  EXPECT_THAT(no_tokenizer.err, HasSubstr("tokenizer.json"));

  write_file(temp / "tokenizer.json", "{\"model\": ");
  EXPECT_EQ(nibble({"tokenize", temp.path().string(), "--text", text}).exit_code, 3);

  const ProgramRun extension = nibble({"tokenize", directory, "--text", text, "-o", temp / "ids.bin"});
  EXPECT_EQ(extension.exit_code, 2);
  EXPECT_THAT(extension.err, HasSubstr("expected a name ending in .u16 or .u32"));

  const ProgramRun unwritable = nibble({"tokenize", directory, "--text", text, "-o", text + "/such/ids.u16"});
  EXPECT_EQ(unwritable.exit_code, 3);
  EXPECT_THAT(unwritable.err, HasSubstr("cannot create directory '" + text + "/such'"));
}

TEST_F(Tokenize, MakesTheDirectoriesOfItsOutput) {
  const std::string output = temp / "new/and/newer/ids.u16";
  EXPECT_EQ(nibble({"tokenize", directory, "--text", text, "-o", output}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(output));
}

}  // namespace
}  // namespace nibble::test

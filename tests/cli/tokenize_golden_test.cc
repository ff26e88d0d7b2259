#include "tests/cli/nibble.h"

namespace nibble::test {
namespace {

TEST(TokenizeGolden, WikiTextAsItIsUnderTheSharedTokenizer) {
  NIBBLE_NEEDS_SHARED("data/wikitext-2-raw/wiki.test.raw");
  const TempDir temp;
  const auto result = nibble_json({"tokenize", shared_path("models/gpt2-novels"), "--text",
                                   shared_path("data/wikitext-2-raw/wiki.test.raw"), "-o", temp / "wiki.u16"});
  EXPECT_EQ(result["tokens"], 402'009);
  EXPECT_EQ(read_file(temp / "wiki.u16"), read_file(shared_path("golden/tokens/wiki.u16")));
}

TEST(TokenizeGolden, JoinedWikiTextUnderGpt2sOwnTokenizerFilesAlone) {
  NIBBLE_NEEDS_SHARED("data/wikitext-2-raw/wiki.test.raw");
  const TempDir temp;
  const auto result =
      nibble_json({"tokenize", shared_path("models/gpt2-tokenizer"), "--text",
                   shared_path("data/wikitext-2-raw/wiki.test.raw"), "--hf-join", "-o", temp / "wiki.u16"});
  EXPECT_EQ(result["tokens"], 287'644);
  EXPECT_EQ(read_file(temp / "wiki.u16"), read_file(shared_path("golden/tokens/wiki.hfjoin.gpt2.u16")));
}

}  // namespace
}  // namespace nibble::test

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/text/json.h"
#include "model/tokenizer/tokenizer.h"
#include "tests/support/files.h"

namespace nibble::model {
namespace {

using test::read_file;
using test::shared_path;
using test::source_path;

std::vector<TokenId> golden_tokens(std::string_view name) {
  const std::string bytes = read_file(shared_path(name));
  std::vector<TokenId> ids(bytes.size() / 2);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<TokenId>(static_cast<unsigned char>(bytes[2 * i]) |
                                  static_cast<unsigned char>(bytes[2 * i + 1]) << 8);
  }
  return ids;
}

/// The rows of WikiText-2 joined by blank lines, as the usual evaluation text is: a row " \n" is an empty one.
std::string join_rows(const std::string& raw) {
  std::string joined;
  for (std::size_t begin = 0; begin < raw.size();) {
    const std::size_t end = raw.find('\n', begin) + 1;
    const std::string row = raw.substr(begin, end - begin);
    if (begin > 0) joined += "\n\n";
    if (row != " \n") joined += row;
    begin = end;
  }
  return joined;
}

/// Equal, or says where they first differ (printing 400,000 ids helps nobody).
testing::AssertionResult same_ids(const std::vector<TokenId>& actual, const std::vector<TokenId>& expected) {
  const auto [a, e] = std::mismatch(actual.begin(), actual.end(), expected.begin(), expected.end());
  if (a == actual.end() && e == expected.end()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << actual.size() << " ids for " << expected.size() << ", first difference at "
                                     << a - actual.begin();
}

void expect_golden(const std::filesystem::path& tokenizer_directory, const std::string& text, std::string_view golden) {
  const auto tokenizer = Tokenizer::open(tokenizer_directory);
  const std::vector<TokenId> ids = golden_tokens(golden);
  EXPECT_TRUE(same_ids(tokenizer->encode(text), ids));
  EXPECT_TRUE(tokenizer->decode(ids) == text);
}

TEST(GoldenTokens, TestNovelsUnderTheSharedTokenizer) {
  NIBBLE_NEEDS_SHARED("golden/tokens");
  for (const std::string name : {"Conrad_Almayer_1895", "Doyle_Lost_1912", "Forster_View_1908"}) {
    SCOPED_TRACE(name);
    expect_golden(shared_path("models/gpt2-novels"), read_file(shared_path("data/novels/" + name + ".txt")),
                  "golden/tokens/" + name + ".u16");
  }
}

TEST(GoldenTokens, WikiTextAsItIsUnderTheSharedTokenizer) {
  NIBBLE_NEEDS_SHARED("golden/tokens");
  ASSERT_EQ(golden_tokens("golden/tokens/wiki.u16").size(), 402009u);
  expect_golden(shared_path("models/llama-novels"), read_file(shared_path("data/wikitext-2-raw/wiki.test.raw")),
                "golden/tokens/wiki.u16");
}

TEST(GoldenTokens, JoinedWikiTextUnderGpt2sOwnTokenizer) {
  NIBBLE_NEEDS_SHARED("golden/tokens");
  ASSERT_EQ(golden_tokens("golden/tokens/wiki.hfjoin.gpt2.u16").size(), 287644u);
  expect_golden(shared_path("models/gpt2-tokenizer"),
                join_rows(read_file(shared_path("data/wikitext-2-raw/wiki.test.raw"))),
                "golden/tokens/wiki.hfjoin.gpt2.u16");
}

TEST(GoldenTokens, ANovelUnderTheDemoTokenizer) {
  NIBBLE_NEEDS_SHARED("golden/tokens");
  expect_golden(source_path("datasets/demo/gpt2-demo"), read_file(shared_path("data/novels/Doyle_Lost_1912.txt")),
                "golden/tokens/Doyle_Lost_1912.demo.u16");
}

TEST(GoldenTokens, Stories260kDecodesItsGoldenText) {
  NIBBLE_NEEDS_SHARED("golden/stories260k");
  const auto tokenizer = Tokenizer::open(shared_path("models/stories260k"));
  const auto golden = nlohmann::json::parse(read_file(shared_path("golden/stories260k/greedy.json")));
  const auto ids = golden["greedy_ids"].get<std::vector<TokenId>>();
  const auto text = golden["text"].get<std::string>();
  EXPECT_EQ(tokenizer->decode(ids), text);
  // A model may spell a text in more tokens than the tokenizer would, so the ids of the text need only decode to it.
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  EXPECT_EQ(tokenizer->encode(text), ids);
  EXPECT_EQ(tokenizer->added_bos(), TokenId{1});
  EXPECT_EQ(tokenizer->eos(), TokenId{2});
}

TEST(GoldenTokens, BothFileFormatsOfOneTokenizerAgree) {
  NIBBLE_NEEDS_SHARED("models/gpt2-novels");
  const test::TempDir directory;
  for (const std::string name : {"vocab.json", "merges.txt", "tokenizer_config.json"}) {
    test::write_file(directory / name, read_file(shared_path("models/gpt2-novels/" + name)));
  }
  const auto from_json = Tokenizer::open(shared_path("models/gpt2-novels"));
  const auto from_lists = Tokenizer::open(directory.path());
  const std::string text = read_file(shared_path("data/novels/Doyle_Lost_1912.txt")) + "<|endoftext|>\u00A0\n \n";
  EXPECT_TRUE(same_ids(from_lists->encode(text), from_json->encode(text)));
  EXPECT_EQ(from_lists->eos(), from_json->eos());
  EXPECT_EQ(from_lists->added_bos(), from_json->added_bos());
}

}  // namespace
}  // namespace nibble::model

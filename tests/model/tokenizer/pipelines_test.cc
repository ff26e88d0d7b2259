#include <gtest/gtest.h>

#include "core/text/json.h"
#include "model/tokenizer/tokenizer.h"
#include "tests/model/tokenizer/tiny_tokenizer.h"

// tests/data/tokenizers/pipelines.json: three small vocabularies, the pipelines of published model families (and a few
// more) around them, texts, and what Hugging Face's tokenizers 0.23 made of those. The golden files of ../shared have
// the same families with larger vocabularies and other texts.

namespace nibble::model {
namespace {

using nibble::test::read_file;
using nibble::test::source_path;
using test::json;

/// An added token at the start, if there is one, and the ids.
std::vector<TokenId> with_special(const Tokenizer& tokenizer, std::vector<TokenId> ids) {
  if (const auto bos = tokenizer.added_bos()) ids.insert(ids.begin(), *bos);
  return ids;
}

TEST(Pipelines, GiveHuggingFacesIdsAndTexts) {
  const json all = json::parse(read_file(source_path("tests/data/tokenizers/pipelines.json")));
  std::size_t pipelines = 0;
  for (const json& pipeline : all["pipelines"]) {
    const auto name = pipeline["name"].get<std::string>();
    SCOPED_TRACE(name);
    json file = pipeline["file"];
    file["model"] = all["models"][pipeline["model"].get<std::string>()];
    const auto tokenizer = test::open_json(file);
    for (const json& c : pipeline["cases"]) {
      const auto text = c["text"].get<std::string>();
      SCOPED_TRACE(testing::PrintToString(text));
      const auto ids = c["ids"].get<std::vector<TokenId>>();
      EXPECT_EQ(tokenizer->encode(text), ids);
      EXPECT_EQ(tokenizer->decode(ids), c["decoded"].get<std::string>());
      std::vector<TokenId> expected = c["special_before"].get<std::vector<TokenId>>();
      expected.insert(expected.end(), ids.begin(), ids.end());
      EXPECT_EQ(with_special(*tokenizer, ids), expected);
      EXPECT_EQ(tokenizer->encode(text), ids) << "the second time, from what is remembered";
    }
    ++pipelines;
  }
  EXPECT_EQ(pipelines, 33u);
}

}  // namespace
}  // namespace nibble::model

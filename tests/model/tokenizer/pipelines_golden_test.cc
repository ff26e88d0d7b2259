#include <gtest/gtest.h>

#include "core/text/json.h"
#include "model/tokenizer/tokenizer.h"
#include "tests/support/files.h"

namespace nibble::model {
namespace {

using nibble::test::read_file;
using nibble::test::shared_path;

TEST(GoldenPipelines, GiveTheIdsAndTextsOfEveryFamily) {
  NIBBLE_NEEDS_SHARED("golden/tokenizers");
  std::size_t families = 0;
  for (const auto& entry : std::filesystem::directory_iterator(shared_path("golden/tokenizers"))) {
    if (!entry.is_directory()) continue;
    SCOPED_TRACE(entry.path().filename().string());
    const auto tokenizer = Tokenizer::open(entry.path());
    const auto bos = tokenizer->added_bos();
    for (const auto& c : nlohmann::json::parse(read_file(entry.path() / "expected.json"))) {
      const auto text = c["text"].get<std::string>();
      SCOPED_TRACE(testing::PrintToString(text));
      std::vector<TokenId> ids = tokenizer->encode(text);
      EXPECT_EQ(ids, c["ids_without_special"].get<std::vector<TokenId>>());
      EXPECT_EQ(tokenizer->decode(ids), c["decoded"].get<std::string>());
      if (bos) ids.insert(ids.begin(), *bos);
      EXPECT_EQ(ids, c["ids"].get<std::vector<TokenId>>());
    }
    ++families;
  }
  EXPECT_EQ(families, 20u);
}

}  // namespace
}  // namespace nibble::model

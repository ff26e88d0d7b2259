#include "quant/job/statistics/calibration_source.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "tests/model/tokenizer/tiny_tokenizer.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using test::TempDir;

class CalibrationSourceTest : public testing::Test {
 protected:
  CalibrationSourceTest() {
    test::tiny_gpt2().write(dir_ / "model");
    std::ofstream file(dir_ / "ids.u16", std::ios::binary);
    for (char id = 0; id < 35; ++id) file.put(id).put('\0');
  }
  ReadText read(const CalibrationSource& source) const { return read_calibration_text(source, dir_ / "model", {}); }

  TempDir dir_;
};

TEST_F(CalibrationSourceTest, CutsTokenIdsIntoWindows) {
  const ReadText read = this->read({.text = {}, .tokens = dir_ / "ids.u16", .length = 10});
  EXPECT_EQ(read.text.window_tokens, 10u);
  ASSERT_EQ(read.text.tokens.size(), 30u);
  for (std::size_t i = 0; i < 30; ++i) EXPECT_EQ(read.text.tokens[i], i);
  EXPECT_FALSE(read.text.fingerprint.empty());
  ASSERT_EQ(read.warnings.size(), 1u) << "five tokens are left over";
  EXPECT_NE(read.warnings[0].find('5'), std::string::npos) << read.warnings[0];
}

TEST_F(CalibrationSourceTest, TakesAsManyWindowsAsAreAskedForOfTheModelsContext) {
  const ReadText read = this->read({.text = {}, .tokens = dir_ / "ids.u16", .samples = 1});
  EXPECT_EQ(read.text.window_tokens, 24u) << "positions that tiny_gpt2() has";
  EXPECT_EQ(read.text.tokens.size(), 24u);
  EXPECT_TRUE(read.warnings.empty());
}

TEST_F(CalibrationSourceTest, BeginsWindowsWithTheBosWhereThatIsAskedFor) {
  const CalibrationSource source{.text = {}, .tokens = dir_ / "ids.u16", .length = 10, .bos = true};
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { (void)read(source); }, "bos: expected a tokenizer beside"));
  const auto write_tokenizer = [&](int bos) {
    nlohmann::json file = model::test::llama2_json();
    file["added_tokens"][1]["id"] = bos;
    file["model"]["vocab"]["<s>"] = bos;
    test::write_file(dir_ / "model" / "tokenizer.json", file.dump());
    test::write_file(dir_ / "model" / "tokenizer_config.json", R"({"add_bos_token": true, "bos_token": "<s>"})");
  };
  write_tokenizer(1);
  const ReadText with = read(source), without = read({.text = {}, .tokens = dir_ / "ids.u16", .length = 10});
  std::vector<TokenId> expected = without.text.tokens;
  for (const std::size_t first : {0u, 10u, 20u}) expected[first] = 1;
  EXPECT_EQ(with.text.tokens, expected);
  EXPECT_TRUE(with.text.behind_bos && !without.text.behind_bos);
  EXPECT_EQ(source.sampling(), "consecutive windows behind the BOS");
  EXPECT_EQ((CalibrationSource{.text = {"a.txt"}, .tokens = {}}.sampling()), "random slices");
  write_tokenizer(262);
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { (void)read(source); }, "BOS 262 is outside"));
}

TEST_F(CalibrationSourceTest, NeedsATokenizerForText) {
  std::ofstream(dir_ / "a.txt") << "some words";
  EXPECT_TRUE(test::throws_with<FormatError>([&] { (void)read({.text = {dir_ / "a.txt"}, .tokens = {}}); },
                                             "has no tokenizer"));
}

}  // namespace
}  // namespace nibble::quant

#include "quant/job/statistics/calibration_source.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
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

TEST_F(CalibrationSourceTest, NeedsATokenizerForText) {
  std::ofstream(dir_ / "a.txt") << "some words";
  EXPECT_TRUE(test::throws_with<FormatError>([&] { (void)read({.text = {dir_ / "a.txt"}, .tokens = {}}); },
                                             "has no tokenizer"));
}

}  // namespace
}  // namespace nibble::quant

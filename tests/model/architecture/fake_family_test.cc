#include "tests/support/fake_family.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "tests/support/throws.h"

namespace nibble::test {
namespace {

TEST(AFamilyOfACallers, IsReadOnceItIsRegistered) {
  register_quilt();
  const model::Architecture a = model::parse_architecture(quilt_config(), "config.json");
  EXPECT_EQ(a.family, "quilt");
  EXPECT_EQ(a.blocks[0].attention.window, 7u);
  EXPECT_EQ(a.blocks[1].attention.window, 0u);
  EXPECT_EQ(a.blocks[2].attention.k.input_of, "quilt.row_2.ask");
  EXPECT_EQ(a.blocks[2].attention.k.fed_by, "quilt.row_2.press");
  EXPECT_EQ(a.blocks[2].mlp->up.fed_by, "") << "a norm without a gain takes no scales";
  EXPECT_EQ(a.head.linear.module, "lm_head");
}

TEST(AFamilyOfACallers, HasEveryTensorOnceInItsFile) {
  register_quilt();
  const auto tensors = model::file_tensors(model::parse_architecture(quilt_config(), "config.json"));
  const auto named = [&](const char* name) {
    return std::find_if(tensors.begin(), tensors.end(), [&](const auto& tensor) { return tensor.name == name; });
  };
  ASSERT_NE(named("quilt.row_1.answer.weight"), tensors.end());
  EXPECT_EQ(named("quilt.row_1.answer.weight")->shape, (std::vector<std::uint64_t>{32, 32}));
  EXPECT_EQ(named("label.bias")->shape, (std::vector<std::uint64_t>{320}));
  // embedding, head with bias, final norm; per block: norm with bias, q with bias, kv, o, gate and up, down.
  EXPECT_EQ(tensors.size(), 4u + 3u * 8u);
}

TEST(AFamilyOfACallers, CannotTakeATakenName) {
  EXPECT_TRUE(throws_with<InvalidArgument>([] { model::register_family({"llama", parse_quilt}); }, "'llama'"));
}

TEST(AFamilyOfACallers, RefusesKeysThatItDoesNotRead) {
  register_quilt();
  std::string config = quilt_config();
  config.insert(config.find('{') + 1, "\"lining\": 2, ");
  EXPECT_TRUE(throws_with<FormatError>([&] { model::parse_architecture(config, "config.json"); }, "'lining'"));
}

}  // namespace
}  // namespace nibble::test

#include "tests/cli/nibble.h"
#include "tests/support/golden_families.h"

namespace nibble::test {
namespace {

TEST(Rotate, GivesACheckpointThatOtherCommandsTake) {
  NIBBLE_NEEDS_SHARED("golden/families/qwen3");
  const TempDir dir;
  const std::string rotated = dir / "rotated";
  const auto json = nibble_json({"rotate", golden_family("qwen3"), "-o", rotated, "--seed", "7"});
  EXPECT_EQ(json["seed"], 7);
  EXPECT_EQ(json["values_rotated"], true);
  EXPECT_LT(json["largest_difference"].get<double>(), 1e-4 * json["largest_logit"].get<double>());
  EXPECT_EQ(nibble({"quantize", rotated, "--preset", "palette", "-o", dir / "q"}).exit_code, 0);
  const auto plain = nibble({"rotate", golden_family("qwen3"), "-o", rotated, "--overwrite", "--residual-only"});
  EXPECT_EQ(plain.exit_code, 0);
  EXPECT_NE(plain.out.find("differ by at most"), std::string::npos) << plain.out;
}

TEST(Rotate, SaysWhatItCannotDo) {
  NIBBLE_NEEDS_SHARED("golden/families/gemma2");
  const TempDir dir;
  const auto refused = nibble({"rotate", golden_family("gemma2"), "-o", dir / "r"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("block 0: model.layers.0.post_attention_layernorm stands over"), std::string::npos)
      << refused.err;
  EXPECT_EQ(nibble({"rotate", golden_family("gemma2"), "-o", dir / "r", "--dtype", "float8"}).exit_code, 2);
  EXPECT_EQ(nibble({"rotate", dir / "none", "-o", dir / "r"}).exit_code, 3);
}

}  // namespace
}  // namespace nibble::test

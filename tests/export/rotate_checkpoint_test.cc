#include "export/rotate_checkpoint.h"

#include <set>

#include "core/error.h"
#include "core/text/json.h"
#include "model/open/open_model.h"
#include "quant/job/quantize_model.h"
#include "tests/support/golden_families.h"
#include "tests/support/throws.h"

namespace nibble::test {
namespace {

using exporting::rotate_checkpoint;

// Families whose norms stand over what is added to the stream, or over the embeddings.
const std::set<std::string> kRefused{"bloom", "exaone4",     "gemma2", "gemma3", "gemma3-sees",
                                     "glm4",  "hyperclovax", "olmo2",  "olmo3"};

class RotatedFamily : public testing::TestWithParam<const char*> {};

TEST_P(RotatedFamily, KeepsItsLogitsOrIsRefusedByName) {
  NIBBLE_NEEDS_FAMILY(GetParam());
  const TempDir dir;
  const auto model = golden_family(GetParam());
  const auto rotate = [&] { return rotate_checkpoint({.model = model, .output = dir / "rotated"}); };
  if (kRefused.contains(GetParam())) {
    EXPECT_TRUE(throws_with<InvalidArgument>(rotate, "cannot rotate", "norm"));
    EXPECT_FALSE(std::filesystem::exists(dir / "rotated"));
    EXPECT_FALSE(std::filesystem::exists(dir / "rotated.partial"));
    return;
  }
  const auto result = rotate();
  EXPECT_GT(result.largest_logit, 0.0);
  EXPECT_GT(result.largest_difference, 0.0) << "the weights are not the same";
  // Float32 in both, weights rounded once more: what 64 tokens through two to four blocks of random weights give.
  EXPECT_LT(result.largest_difference, 1e-4 * result.largest_logit);
  const auto before = model::open_checkpoint(model), after = model::open_checkpoint(dir / "rotated");
  EXPECT_EQ(after->architecture().head.tied, before->architecture().head.tied && !result.untied);
}
INSTANTIATE_TEST_SUITE_P(Golden, RotatedFamily, testing::ValuesIn(kGoldenFamilies), family_test_name);

TEST(RotateCheckpoint, WritesWhatItIsToldAndNothingElsewhere) {
  NIBBLE_NEEDS_SHARED("golden/families/llama");
  const TempDir dir;
  const auto model = golden_family("llama");
  const auto half = rotate_checkpoint({.model = model, .output = dir / "half", .dtype = DType::kF16});
  const auto full = rotate_checkpoint({.model = model, .output = dir / "full"});
  EXPECT_EQ(2 * half.bytes, full.bytes);
  EXPECT_GT(half.largest_difference, 10 * full.largest_difference) << "2^-11 in place of 2^-24";
  EXPECT_TRUE(
      throws_with<InvalidArgument>([&] { rotate_checkpoint({.model = model, .output = dir / "full"}); }, "exists"));
  EXPECT_TRUE(
      throws_with<InvalidArgument>([&] { rotate_checkpoint({.model = model, .output = model}); }, "the model itself"));
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [&] { rotate_checkpoint({.model = dir / "full", .output = dir / "full" / "inside"}); }, "inside"));
  EXPECT_EQ(rotate_checkpoint({.model = model, .output = dir / "again"}).bytes, full.bytes);
  EXPECT_EQ(model::open_checkpoint(dir / "again")->fingerprint(), model::open_checkpoint(dir / "full")->fingerprint());
  rotate_checkpoint({.model = model, .output = dir / "other", .rotation = {.seed = 1}});
  EXPECT_NE(model::open_checkpoint(dir / "other")->fingerprint(), model::open_checkpoint(dir / "full")->fingerprint());
}

TEST(RotateCheckpoint, RefusesWhatIsQuantized) {
  NIBBLE_NEEDS_SHARED("golden/families/llama");
  const TempDir dir;
  quant::quantize_model({.model = golden_family("llama"),
                         .output = dir / "q",
                         .recipe = quant::Recipe::preset("palette"),
                         .calibration = {},
                         .progress = {}});
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { rotate_checkpoint({.model = dir / "q", .output = dir / "r"}); },
                                           "quantized", "rotate the float model"));
}

}  // namespace
}  // namespace nibble::test

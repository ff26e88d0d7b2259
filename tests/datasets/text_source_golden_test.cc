#include <gtest/gtest.h>

#include "datasets/text_source.h"
#include "tests/support/files.h"

namespace nibble::datasets {
namespace {

TEST(TextSourceGolden, WikiTextIsJoinedToTheLengthThatTheRecipeGives) {
  NIBBLE_NEEDS_SHARED("data/wikitext-2-raw/wiki.test.raw");
  const auto path = test::shared_path("data/wikitext-2-raw/wiki.test.raw");
  EXPECT_EQ(read_evaluation_text(path, false).size(), 1'290'590u);
  const std::string joined = read_evaluation_text(path, true);
  EXPECT_EQ(joined.size(), 1'296'370u);
  EXPECT_TRUE(joined.starts_with("\n\n = Robert Boulter = \n\n\n\n\n Robert Boulter is"));
}

}  // namespace
}  // namespace nibble::datasets

#include "cli/terminal/table.h"

#include <gtest/gtest.h>

namespace nibble::cli {
namespace {

TEST(Table, AlignsColumnsUnderTheirTitles) {
  Table table({{"tensor", Align::kLeft}, {"bits"}});
  table.add_row({"h.0.attn", "4.00"});
  table.add_row({"h.0", "16"});
  table.add_rule();
  table.add_row({"all"});
  EXPECT_EQ(table.text(),
            "tensor    bits\n"
            "--------  ----\n"
            "h.0.attn  4.00\n"
            "h.0         16\n"
            "--------  ----\n"
            "all\n");
}

TEST(Table, CountsCharactersAndNotBytes) {
  Table table({{"a"}, {"b", Align::kLeft}});
  table.add_row({"1 ± 2", "x"});
  table.add_row({"100", "y"});
  EXPECT_EQ(table.text(),
            "    a  b\n"
            "-----  -\n"
            "1 ± 2  x\n"
            "  100  y\n");
}

TEST(AlignedFacts, PadNamesToTheLongest) {
  EXPECT_EQ(aligned_facts({{"perplexity", "1.0"}, {"windows", "3"}}), "perplexity  1.0\nwindows     3\n");
}

}  // namespace
}  // namespace nibble::cli

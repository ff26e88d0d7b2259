#include "cli/terminal/human.h"

#include <gtest/gtest.h>

#include <limits>

namespace nibble::cli {
namespace {

TEST(HumanCount, KeepsThreeDigitsAndStepsByThousands) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(87.54), "87.5");
  EXPECT_EQ(human_count(1.5), "1.50");
  EXPECT_EQ(human_count(1000), "1.00k");
  EXPECT_EQ(human_count(12345), "12.3k");
  EXPECT_EQ(human_count(1090000), "1.09M");
  EXPECT_EQ(human_count(70.6e9), "70.6G");
  EXPECT_EQ(human_count(std::numeric_limits<double>::quiet_NaN()), "?");
}

TEST(HumanCount, RoundingNeverShowsFourDigits) {
  EXPECT_EQ(human_count(999.7), "1.00k");
  EXPECT_EQ(human_count(999600), "1.00M");
  EXPECT_EQ(human_count(9996), "10.0k");
  EXPECT_EQ(human_count(99960), "100k");
}

TEST(HumanBytes, AreDecimal) {
  EXPECT_EQ(human_bytes(0), "0 bytes");
  EXPECT_EQ(human_bytes(999), "999 bytes");
  EXPECT_EQ(human_bytes(1000), "1.00 kB");
  EXPECT_EQ(human_bytes(27986368), "28.0 MB");
  EXPECT_EQ(human_bytes(16060522496), "16.1 GB");
}

TEST(HumanDuration, ChangesItsUnitWithSize) {
  EXPECT_EQ(human_duration(0.0004), "0.4 ms");
  EXPECT_EQ(human_duration(0.85), "850 ms");
  EXPECT_EQ(human_duration(3.21), "3.2 s");
  EXPECT_EQ(human_duration(59.96), "1:00");
  EXPECT_EQ(human_duration(65), "1:05");
  EXPECT_EQ(human_duration(7384), "2:03:04");
  EXPECT_EQ(human_duration(std::numeric_limits<double>::quiet_NaN()), "?");
}

TEST(HumanClock, HasAnEvenWidthAndSurvivesNonsense) {
  EXPECT_EQ(human_clock(7), "00:07");
  EXPECT_EQ(human_clock(754), "12:34");
  EXPECT_EQ(human_clock(3723), "1:02:03");
  EXPECT_EQ(human_clock(std::numeric_limits<double>::infinity()), "99:59:59");
  EXPECT_EQ(human_clock(std::numeric_limits<double>::quiet_NaN()), "--:--");
}

TEST(WithSeparators, GroupsThousands) {
  EXPECT_EQ(with_separators(0), "0");
  EXPECT_EQ(with_separators(999), "999");
  EXPECT_EQ(with_separators(1000), "1,000");
  EXPECT_EQ(with_separators(402009), "402,009");
  EXPECT_EQ(with_separators(18446744073709551615u), "18,446,744,073,709,551,615");
}

}  // namespace
}  // namespace nibble::cli

#include "eval/report/pareto_front.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace nibble::eval {
namespace {

struct Point {
  double bits, figure;
};

// Fronts of points whose figures are told apart where they differ by `told` or more.
class ParetoFrontTest : public testing::Test {
 protected:
  ParetoFront front(const std::vector<Point>& points, double told, bool known = true) {
    entries_.assign(points.size(), Entry{});
    Entries pointers;
    for (const Entry& entry : entries_) pointers.push_back(&entry);
    const auto point = [&](const Entry& entry) { return points[static_cast<std::size_t>(&entry - entries_.data())]; };
    return pareto_front(
        pointers,
        {.bits = [&](const Entry& entry) { return point(entry).bits; },
         .figure = [&](const Entry& entry) { return point(entry).figure; },
         .difference = [&](const Entry& a, const Entry& b) -> std::optional<PairedDifference> {
           if (!known) return std::nullopt;
           const double mean = point(a).figure - point(b).figure;
           return PairedDifference{
               .mean = mean, .standard_error = 1.0, .p_value = std::abs(mean) >= told ? 0.01 : 0.5, .pairs = 9};
         }});
  }
  std::string names(const Entries& entries) const {
    std::string text;
    for (const Entry* entry : entries) text += name(entry);
    return text;
  }
  std::string undecided(const ParetoFront& front) const {
    std::string text;
    for (const Entry& entry : entries_)
      if (front.undecided.contains(&entry)) text += name(&entry);
    return text;
  }
  char name(const Entry* entry) const { return static_cast<char>('a' + (entry - entries_.data())); }

 private:
  std::vector<Entry> entries_;
};

TEST_F(ParetoFrontTest, IsWhatNothingWithAsFewBitsIsBelow) {
  const ParetoFront found = front({{4, 6}, {3, 7}, {3, 5}, {2, 10}}, 1.0);
  EXPECT_EQ(names(found.lowest), "dc");
  EXPECT_EQ(undecided(found), "");
}

TEST_F(ParetoFrontTest, CellsOffItWithinTheErrorsAreUndecided) {
  const ParetoFront found = front({{2, 10}, {3, 5}, {4, 6}, {5, 8}}, 2.0);
  EXPECT_EQ(names(found.lowest), "ab");
  EXPECT_EQ(undecided(found), "c");  // d is told from b
}

TEST_F(ParetoFrontTest, CellsOnItWhoseBitsBuyNothingThatIsToldAreUndecided) {
  const ParetoFront found = front({{2, 10}, {3, 5}, {4, 4.5}}, 2.0);
  EXPECT_EQ(names(found.lowest), "abc");
  EXPECT_EQ(undecided(found), "c");
}

TEST_F(ParetoFrontTest, WhatIsBeatenOnceIsBeaten) {
  const ParetoFront found = front({{3, 5}, {3, 7}, {4, 8}}, 2.0);  // c is told from a, not from b
  EXPECT_EQ(undecided(found), "");
  EXPECT_EQ(names(found.lowest), "a");
}

TEST_F(ParetoFrontTest, AmongEqualsTheFirstIsDrawnAndAllAreUndecided) {
  const ParetoFront found = front({{3, 5}, {3, 5}, {2, 9}}, 2.0);
  EXPECT_EQ(names(found.lowest), "ca");
  EXPECT_EQ(undecided(found), "ab");
}

TEST_F(ParetoFrontTest, UnknownDifferencesLeaveTheFiguresAsTheyAre) {
  const ParetoFront found = front({{2, 10}, {3, 5}, {4, 6}}, 2.0, false);
  EXPECT_EQ(names(found.lowest), "ab");
  EXPECT_EQ(undecided(found), "");
}

}  // namespace
}  // namespace nibble::eval

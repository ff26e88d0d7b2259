#include "quant/algo/solve/multiple_choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/random.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using Items = std::vector<std::vector<KnapsackWay>>;

// The least loss of all selections that fit, by trying every one; infinity when none fits.
double least_loss(const Items& items, std::uint64_t capacity, std::size_t from = 0, double loss = 0.0,
                  std::uint64_t size = 0) {
  if (size > capacity) return std::numeric_limits<double>::infinity();
  if (from == items.size()) return loss;
  double best = std::numeric_limits<double>::infinity();
  for (const KnapsackWay& choice : items[from])
    best = std::min(best, least_loss(items, capacity, from + 1, loss + choice.loss, size + choice.size));
  return best;
}

Items random_items(Random& random, std::size_t count, std::uint64_t largest) {
  Items items(count);
  for (auto& item : items) {
    item.resize(1 + random.below(5));
    for (KnapsackWay& choice : item) choice = {random.uniform() * 10.0 - 2.0, random.below(largest)};
  }
  return items;
}

void expect_consistent(const Items& items, std::uint64_t capacity, const KnapsackResult& result) {
  double loss = 0.0;
  std::uint64_t size = 0;
  ASSERT_EQ(result.chosen.size(), items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    loss += items[i].at(result.chosen[i]).loss;
    size += items[i].at(result.chosen[i]).size;
  }
  EXPECT_TRUE(nibble::test::near(result.loss, loss, {.abs = 1e-12}));  // a few additions of numbers up to 10
  EXPECT_EQ(result.size, size);
  EXPECT_LE(size, capacity);
  EXPECT_LE(result.lower_bound, result.loss);
}

TEST(MultipleChoice, FindsTheOptimumThatTryingEverySelectionFinds) {
  Random random(5);
  SCOPED_TRACE("seed 5");
  int solved = 0;
  for (int round = 0; round < 400; ++round) {
    const Items items = random_items(random, 1 + random.below(6), round % 2 == 0 ? 7 : 1000);
    const std::uint64_t capacity = random.below(round % 2 == 0 ? 30 : 3000);
    const double expected = least_loss(items, capacity);
    if (std::isinf(expected)) {
      EXPECT_THROW((void)choose_ways(items, capacity), InvalidArgument);
      continue;
    }
    const KnapsackResult result = choose_ways(items, capacity);
    expect_consistent(items, capacity, result);
    EXPECT_TRUE(result.exact);
    EXPECT_TRUE(nibble::test::near(result.loss, expected, {.abs = 1e-12})) << "round " << round;
    ++solved;
  }
  EXPECT_GT(solved, 200);
}

TEST(MultipleChoice, WithoutASearchGivesASelectionAndABoundOnBothSidesOfTheOptimum) {
  Random random(6);
  SCOPED_TRACE("seed 6");
  int bounded = 0;
  for (int round = 0; round < 200; ++round) {
    const Items items = random_items(random, 5, 1000);
    const std::uint64_t capacity = 2500;
    const double expected = least_loss(items, capacity);
    if (std::isinf(expected)) continue;
    const KnapsackResult result = choose_ways(items, capacity, 0);
    expect_consistent(items, capacity, result);
    EXPECT_LE(result.lower_bound, expected + 1e-12);
    EXPECT_GE(result.loss, expected - 1e-12);
    bounded += result.exact ? 0 : 1;
  }
  EXPECT_GT(bounded, 100);
}

TEST(MultipleChoice, SolvesAModelOfTheSizeOfSevenBillionWeights) {
  Random random(7);
  SCOPED_TRACE("seed 7");
  Items items;
  const std::uint64_t shapes[] = {4096u * 4096,  4096u * 4096,  4096u * 4096, 4096u * 4096,
                                  4096u * 11008, 4096u * 11008, 4096u * 11008};
  std::uint64_t weights = 0;
  for (std::size_t i = 0; i < 224; ++i) {
    const std::uint64_t n = shapes[i % 7];
    const double sensitivity = std::exp(random.normal());
    weights += n;
    auto& item = items.emplace_back();
    for (const unsigned bits : {2u, 3u, 4u, 6u})
      for (const std::uint64_t palettes : {std::uint64_t{1}, n / 4096}) {
        const double noise = (palettes == 1 ? 1.0 : 0.8) * (1.0 + 0.1 * random.uniform());
        item.push_back({sensitivity * noise * std::exp2(-2.0 * bits), n * bits + palettes * (16u << bits)});
      }
  }
  const std::uint64_t capacity = weights * 7 / 2;
  const KnapsackResult result = choose_ways(items, capacity);
  expect_consistent(items, capacity, result);
  EXPECT_TRUE(result.exact) << result.states;
  EXPECT_GT(static_cast<double>(result.size), 0.999 * static_cast<double>(capacity));
}

TEST(MultipleChoice, RoomForEverythingTakesTheLeastLosses) {
  const Items items{{{3.0, 1}, {1.0, 5}}, {{2.0, 4}, {2.0, 3}}};
  const KnapsackResult result = choose_ways(items, 1000);
  EXPECT_EQ(result.chosen, (std::vector<std::size_t>{1, 1})) << "of equal losses the smaller";
  EXPECT_EQ(result.loss, 3.0);
  EXPECT_EQ(result.lower_bound, 3.0);
}

TEST(MultipleChoice, NothingToChooseIsFine) {
  const KnapsackResult result = choose_ways({}, 0);
  EXPECT_TRUE(result.exact);
  EXPECT_EQ(result.loss, 0.0);
}

TEST(MultipleChoice, SaysWhatIsImpossible) {
  EXPECT_TRUE(nibble::test::throws_with<InvalidArgument>(
      [] {
        (void)choose_ways(Items{{{1.0, 5}}, {{1.0, 6}}}, 10);
      },
      "11", "10"));
  EXPECT_TRUE(
      nibble::test::throws_with<InvalidArgument>([] { (void)choose_ways(Items{{}}, 10); }, "nothing to choose"));
  EXPECT_TRUE(nibble::test::throws_with<InvalidArgument>(
      [] {
        (void)choose_ways(Items{{{std::numeric_limits<double>::quiet_NaN(), 1}}}, 10);
      },
      "finite"));
}

}  // namespace
}  // namespace nibble::quant

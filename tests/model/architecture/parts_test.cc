#include "model/architecture/parts.h"

#include <gtest/gtest.h>

#include "tests/support/compare.h"

namespace nibble::test {
namespace {

using model::Fused;
using model::Role;
using model::RowSet;

std::vector<std::size_t> rows_of(const RowSet& set) {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < set.count; ++i) rows.push_back(set.row(i));
  return rows;
}

TEST(GroupedProjections, TakeQueriesKeyAndValueOfEachGroupInTurn) {
  model::AttentionSpec attention;
  attention.heads = 4, attention.kv_heads = 2, attention.head_dim = 2;
  model::set_grouped_qkv(attention, {.module = "qkv", .rows = 16, .in = 8}, 3);
  EXPECT_EQ(rows_of(attention.q.weight.part), (std::vector<std::size_t>{0, 1, 2, 3, 8, 9, 10, 11}));
  EXPECT_EQ(rows_of(attention.k.weight.part), (std::vector<std::size_t>{4, 5, 12, 13}));
  EXPECT_EQ(rows_of(attention.v.weight.part), (std::vector<std::size_t>{6, 7, 14, 15}));
  EXPECT_EQ(attention.k.module, "qkv.k");
  EXPECT_EQ(attention.k.block, 3u);
  EXPECT_EQ(attention.k.bias.part, attention.k.weight.part);
}

TEST(GroupedProjections, AreThreeRunsWithOneKeyValueHead) {
  model::AttentionSpec attention;
  attention.heads = 3, attention.kv_heads = 1, attention.head_dim = 2;
  model::set_grouped_qkv(attention, {.module = "qkv", .rows = 10, .in = 6}, 0);
  EXPECT_TRUE(attention.q.weight.part.is_contiguous());
  EXPECT_EQ(rows_of(attention.k.weight.part), (std::vector<std::size_t>{6, 7}));
  EXPECT_EQ(rows_of(attention.v.weight.part), (std::vector<std::size_t>{8, 9}));
}

TEST(PartsOfStacks, KnowTheirSliceAndItsTensors) {
  const Fused stack{.module = "experts.gate_up.2",
                    .rows = 6,
                    .in = 4,
                    .biased = true,
                    .transposed = true,
                    .weight = "experts.gate_up",
                    .bias = "experts.gate_up_bias",
                    .slices = 5,
                    .slice = 2};
  const model::Parameter up = model::part_of(stack, Role::kUp, 1, "up", {1, 1, 2, 3});
  EXPECT_EQ(up.module, "experts.gate_up.2.up");
  EXPECT_EQ(up.weight.shape(), (std::vector<std::uint64_t>{5, 4, 6}));
  EXPECT_EQ(up.bias.shape(), (std::vector<std::uint64_t>{5, 6}));
  EXPECT_EQ(up.weight.slice, 2u);
  EXPECT_EQ(rows_of(up.weight.part), (std::vector<std::size_t>{1, 3, 5}));
  EXPECT_EQ(model::part_of(stack, Role::kDown, 1, "", RowSet::contiguous(0, 6)).module, "experts.gate_up.2");
}

// Powers of two and their quarter powers: exact but for the exponential's own rounding.
TEST(AlibiSlopes, AreAGeometricSequence) {
  EXPECT_TRUE(all_near(model::alibi_slopes(4), std::vector<double>{0.25, 0.0625, 0.015625, 0.00390625}, {}));
}

TEST(AlibiSlopes, OfOtherNumbersOfHeadsFillUpWithEveryOtherSlopeOfTwiceAsMany) {
  const std::vector<double> slopes = model::alibi_slopes(6), eight = model::alibi_slopes(8);
  ASSERT_EQ(slopes.size(), 6u);
  EXPECT_TRUE(all_near(std::span(slopes).first(4), model::alibi_slopes(4), {}));
  EXPECT_TRUE(near(slopes[4], eight[0], {}));
  EXPECT_TRUE(near(slopes[5], eight[2], {}));
}

TEST(Mixtures, MarkTheParametersOfTheirExperts) {
  const model::ExpertsSpec experts = model::mixture(2, "router", 4, 3, 1, [](std::size_t e) {
    model::MlpSpec mlp;
    mlp.up = model::linear(Role::kUp, 2, "up." + std::to_string(e), 5, 4);
    mlp.down = model::linear(Role::kDown, 2, "down." + std::to_string(e), 4, 5);
    return mlp;
  });
  ASSERT_EQ(experts.experts.size(), 3u);
  EXPECT_EQ(experts.experts[1].down.expert, 1u);
  EXPECT_EQ(experts.router.out, 3u);
  EXPECT_FALSE(experts.router.expert.has_value());
}

}  // namespace
}  // namespace nibble::test

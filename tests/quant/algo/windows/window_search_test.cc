#include "quant/algo/windows/window_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "core/error.h"
#include "core/machine/isa.h"
#include "core/random.h"
#include "quant/format/windowed_codes.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using nibble::test::near;

struct Problem {
  std::vector<float> palette, targets, factors;
};

Problem random_problem(unsigned window_bits, std::size_t rows, std::uint64_t seed) {
  Random random(seed);
  Problem problem;
  for (std::size_t q = 0; q < std::size_t{1} << window_bits; ++q)
    problem.palette.push_back(static_cast<float>(random.normal()));
  for (std::size_t i = 0; i < rows; ++i) {
    problem.targets.push_back(static_cast<float>(random.normal()));
    problem.factors.push_back(static_cast<float>(0.5 + random.uniform()));
  }
  return problem;
}

double cost_of(const Problem& problem, const std::vector<std::uint16_t>& codes) {
  double cost = 0.0;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const double error = static_cast<double>(problem.targets[i]) -
                         static_cast<double>(problem.factors[i]) * static_cast<double>(problem.palette[codes[i]]);
    cost += error * error;
  }
  return cost;
}

// Every stream there is.
double least_cost(const Problem& problem, unsigned bits, unsigned window_bits) {
  const std::size_t rows = problem.targets.size(), length = rows * bits + window_bits - bits;
  double least = std::numeric_limits<double>::infinity();
  std::vector<std::uint16_t> codes(rows);
  for (std::uint32_t stream = 0; stream < std::uint32_t{1} << length; ++stream) {
    for (std::size_t i = 0; i < rows; ++i)
      codes[i] = static_cast<std::uint16_t>(stream >> (i * bits) & ((1u << window_bits) - 1));
    least = std::min(least, cost_of(problem, codes));
  }
  return least;
}

bool is_stream(const std::vector<std::uint16_t>& codes, unsigned bits, unsigned window_bits) {
  const WindowedLayout layout{.rows = codes.size(), .cols = 1, .bits = bits, .window_bits = window_bits};
  for (std::size_t i = 1; i < codes.size(); ++i)
    if (!windows_overlap(layout, codes[i - 1], codes[i])) return false;
  return true;
}

TEST(WindowSearch, FindsTheBestOfAllStreams) {
  for (unsigned bits = 1; bits <= kMostWindowStep; ++bits)
    for (unsigned window_bits = std::max(kLeastWindowBits, bits + 1); window_bits <= kMostWindowBits; ++window_bits)
      for (std::size_t rows = 1; rows * bits + window_bits - bits <= 14; rows += 1 + (bits == 1 ? 2 : 0)) {
        const std::uint64_t seed = 1000 * bits + 100 * window_bits + rows;
        SCOPED_TRACE(testing::Message() << bits << " of " << window_bits << " bits, " << rows << " rows, seed "
                                        << seed);
        const Problem problem = random_problem(window_bits, rows, seed);
        std::vector<std::uint16_t> codes(rows);
        WindowSearch(problem.palette, bits, window_bits).search(problem.targets, problem.factors, codes);
        ASSERT_TRUE(is_stream(codes, bits, window_bits));
        // Sums of at most 14 squares in float: two streams closer than that are as good.
        const double least = least_cost(problem, bits, window_bits);
        EXPECT_TRUE(near(cost_of(problem, codes), least, {.abs = 1e-5, .rel = 1e-5}));
      }
}

// Long enough for costs to be brought down many times: the search in double, over all states, in plain loops.
TEST(WindowSearch, OfManyRowsCostsWhatPlainDynamicProgrammingDoes) {
  for (const auto& [bits, window_bits] : {std::pair(1u, 6u), {2u, 6u}, {2u, 8u}, {3u, 6u}, {3u, 7u}, {4u, 8u}}) {
    SCOPED_TRACE(testing::Message() << bits << " of " << window_bits << " bits, seed 5");
    const std::size_t rows = 1000, states = std::size_t{1} << window_bits;
    const Problem problem = random_problem(window_bits, rows, 5);
    std::vector<std::uint16_t> codes(rows);
    WindowSearch search(problem.palette, bits, window_bits);
    search.search(problem.targets, problem.factors, codes);
    ASSERT_TRUE(is_stream(codes, bits, window_bits));
    std::vector<double> costs(states, 0.0), next(states);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t q = 0; q < states; ++q) {
        const double error = static_cast<double>(problem.targets[i]) -
                             static_cast<double>(problem.factors[i]) * static_cast<double>(problem.palette[q]);
        double before = i == 0 ? 0.0 : std::numeric_limits<double>::infinity();
        for (std::size_t p = 0; i > 0 && p < states; ++p)
          if (p >> bits == (q & ((states >> bits) - 1))) before = std::min(before, costs[p]);
        next[q] = before + error * error;
      }
      costs = next;
    }
    const double least = *std::min_element(costs.begin(), costs.end());
    // 64 additions of costs around 10 between subtractions: each choice is good to 64 · 10 · 2^-24, of 1000.
    EXPECT_TRUE(near(cost_of(problem, codes), least, {.rel = 1e-5}));
  }
}

TEST(WindowSearch, GivesTheSameCodesWithEveryInstructionSet) {
  for (unsigned bits = 1; bits <= kMostWindowStep; ++bits)
    for (unsigned window_bits = std::max(kLeastWindowBits, bits + 1); window_bits <= kMostWindowBits; ++window_bits) {
      SCOPED_TRACE(testing::Message() << bits << " of " << window_bits << " bits");
      const std::size_t rows = 300;
      const Problem problem = random_problem(window_bits, rows, 6);
      const std::size_t groups = std::size_t{1} << (window_bits - bits), states = std::size_t{1} << window_bits;
      const viterbi_kernels::Trellis trellis{problem.palette.data(), bits, window_bits};
      const std::size_t bytes = rows * bits * viterbi_kernels::plane_bytes(bits, window_bits);
      std::vector<std::uint8_t> expected(bytes), got(bytes);
      std::vector<float> expected_costs(states), costs(states);
      viterbi_kernels::forward_scalar(trellis, problem.targets.data(), problem.factors.data(), rows, nullptr,
                                      expected.data(), expected_costs.data());
      const auto expect_same = [&](auto* forward) {
        forward(trellis, problem.targets.data(), problem.factors.data(), rows, nullptr, got.data(), costs.data());
        EXPECT_EQ(got, expected);
        EXPECT_EQ(costs, expected_costs);
      };
      expect_same(viterbi_kernels::active(bits, window_bits));
#if defined(__x86_64__)
      if (best_supported_isa() >= Isa::kAvx2 && groups >= 4) expect_same(&viterbi_kernels::forward_avx2);
      if (best_supported_isa() >= Isa::kAvx512 && groups >= 16) expect_same(&viterbi_kernels::forward_avx512);
#elif defined(__aarch64__)
      if (supports_isa(Isa::kNeon) && groups >= 4) expect_same(&viterbi_kernels::forward_neon);
#endif
    }
}

// Every stream that goes on from one window and to another.
TEST(WindowSearch, FindsTheBestStreamBetweenGivenWindows) {
  for (const auto& [bits, window_bits] : {std::pair{1u, 4u}, {2u, 5u}, {3u, 4u}}) {
    const std::size_t rows = 4, length = (rows + 2) * bits + window_bits - bits;
    const Problem problem = random_problem(window_bits, rows, 11 + bits);
    Random random(bits);
    for (int round = 0; round < 20; ++round) {
      const auto before = static_cast<std::uint16_t>(random.below(1u << window_bits));
      const auto after = static_cast<std::uint16_t>(random.below(1u << window_bits));
      for (const unsigned given : {1u, 2u, 3u}) {
        double least = std::numeric_limits<double>::infinity();
        std::vector<std::uint16_t> codes(rows);
        for (std::uint32_t stream = 0; stream < std::uint32_t{1} << length; ++stream) {
          const auto window = [&](std::size_t i) {
            return static_cast<std::uint16_t>(stream >> (i * bits) & ((1u << window_bits) - 1));
          };
          if (((given & 1u) != 0 && window(0) != before) || ((given & 2u) != 0 && window(rows + 1) != after)) continue;
          for (std::size_t i = 0; i < rows; ++i) codes[i] = window(i + 1);
          least = std::min(least, cost_of(problem, codes));
        }
        WindowSearch(problem.palette, bits, window_bits)
            .search_between((given & 1u) != 0 ? std::optional(before) : std::nullopt,
                            (given & 2u) != 0 ? std::optional(after) : std::nullopt, problem.targets, problem.factors,
                            codes);
        EXPECT_TRUE(is_stream(codes, bits, window_bits));
        const unsigned shared = (1u << (window_bits - bits)) - 1u;
        if ((given & 1u) != 0) {
          EXPECT_EQ(codes.front() & shared, static_cast<unsigned>(before) >> bits);
        }
        if ((given & 2u) != 0) {
          EXPECT_EQ(after & shared, static_cast<unsigned>(codes.back()) >> bits);
        }
        EXPECT_TRUE(near(cost_of(problem, codes), least, {.rel = 1e-5}));
      }
    }
  }
}

TEST(WindowSearch, AlwaysGivesAStream) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  Problem problem = random_problem(6, 50, 7);
  for (const float bad : {nan, inf, -inf, 0.0f, 1e30f}) {
    for (float& target : problem.targets) target = bad;
    std::vector<std::uint16_t> codes(50);
    WindowSearch(problem.palette, 2, 6).search(problem.targets, problem.factors, codes);
    EXPECT_TRUE(is_stream(codes, 2, 6)) << bad;
    WindowSearch(problem.palette, 2, 6).search_between(std::uint16_t{45}, {}, problem.targets, problem.factors, codes);
    EXPECT_TRUE(is_stream(codes, 2, 6)) << bad;
    EXPECT_EQ(codes.front() & 15u, 45u >> 2) << bad;
  }
}

TEST(WindowSearch, RefusesWhatDoesNotFit) {
  std::vector<float> palette(64);
  std::vector<std::uint16_t> codes(3);
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { WindowSearch(palette, 2, 7); }, "64 entries", "7 bits"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { WindowSearch(palette, 6, 6); }, "go on by 6"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { WindowSearch(palette, 2, 6).search(palette, palette, codes); },
                                                 "64 targets", "3 codes"));
}

}  // namespace
}  // namespace nibble::quant

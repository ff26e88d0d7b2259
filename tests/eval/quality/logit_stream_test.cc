#include "eval/quality/logit_stream.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/eval/quality/fake_model.h"

namespace nibble::eval {
namespace {

using test::FakeModel;

// Ten targets; the fake model hands out chunks of three rows.
struct LogitStreamTest : testing::Test {
  std::vector<TokenId> text{100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110};
  std::vector<datasets::Window> windows{{0, 11, 1, 11}};
  WindowBatch batch = make_window_batch(text, windows, std::nullopt);
  std::size_t rows_made = 0;
  FakeModel model{1, [this](std::span<const TokenId> prefix) {
                    ++rows_made;
                    return std::vector<float>{static_cast<float>(prefix.back())};
                  }};
};

TEST_F(LogitStreamTest, GivesEveryRowOnceInOrderWhateverIsAskedFor) {
  for (const std::size_t most : {1u, 2u, 3u, 4u, 100u}) {
    const LogitMaker make = logits_of(model, {});
    LogitStream stream(make, batch, 0);
    float next = 100.0f;
    for (auto rows = stream.next(most); rows.rows() > 0; rows = stream.next(most)) {
      EXPECT_LE(rows.rows(), most);
      for (std::size_t row = 0; row < rows.rows(); ++row) EXPECT_EQ(rows(row, 0), next++);
    }
    EXPECT_EQ(next, 110.0f);
    EXPECT_EQ(stream.next(1).rows(), 0u) << "the end stays the end";
  }
}

TEST_F(LogitStreamTest, TheModelWaitsUntilItsRowsAreUsed) {
  const LogitMaker make = logits_of(model, {});
  LogitStream stream(make, batch, 0);
  EXPECT_EQ(rows_made, 3u);
  stream.next(3);
  EXPECT_EQ(rows_made, 3u);
  stream.next(1);
  EXPECT_EQ(rows_made, 6u);
}

TEST_F(LogitStreamTest, MayBeLeftAtAnyPoint) {
  for (std::size_t taken = 0; taken <= 11; ++taken) {
    rows_made = 0;
    {
      const LogitMaker make = logits_of(model, {});
      LogitStream stream(make, batch, 0);
      for (std::size_t i = 0; i < taken; ++i) stream.next(1);
    }
    EXPECT_LE(rows_made, taken + 3);
  }
}

TEST_F(LogitStreamTest, WhatTheModelThrowsArrivesWhereRowsAreAskedFor) {
  const FakeModel failing(1, [](std::span<const TokenId> prefix) {
    if (prefix.size() > 5) throw std::runtime_error("no more");
    return std::vector<float>{0.0f};
  });
  const LogitMaker make = logits_of(failing, {});
  LogitStream stream(make, batch, 0);
  EXPECT_EQ(stream.next(10).rows(), 3u);
  EXPECT_THROW(stream.next(10), std::runtime_error);
  EXPECT_THROW(stream.next(10), std::runtime_error);
}

}  // namespace
}  // namespace nibble::eval

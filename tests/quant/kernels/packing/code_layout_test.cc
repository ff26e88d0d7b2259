#include "quant/kernels/packing/code_layout.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace nibble::quant {
namespace {

TEST(CodeLayout, EveryCodeOfAPanelHasBitsOfItsOwn) {
  for (const unsigned bits : {1u, 2u, 3u, 4u, 6u, 8u}) {
    for (const std::size_t panel_rows : {std::size_t{16}, std::size_t{1}}) {
      const CodeLayout layout{bits, panel_rows};
      const std::size_t inputs = 2 * layout.unit_inputs();
      std::set<std::pair<std::size_t, unsigned>> taken;  // (byte, bit)
      const auto take = [&](CodeLayout::Place place, unsigned width) {
        for (unsigned bit = 0; bit < width; ++bit) EXPECT_TRUE(taken.emplace(place.byte, place.shift + bit).second);
      };
      for (std::size_t row = 0; row < panel_rows; ++row) {
        for (std::size_t input = 0; input < inputs; ++input) {
          take(layout.place(0, row, input), layout.low_bits());
          if (layout.high_bits() != 0) take(layout.place(1, row, input), layout.high_bits());
        }
      }
      EXPECT_EQ(taken.size(), 2 * layout.unit_bytes() * 8) << bits << " bits: no bit is wasted";
      EXPECT_LT(taken.rbegin()->first, 2 * layout.unit_bytes());
      EXPECT_LT(taken.rbegin()->second, 8u);
    }
  }
}

TEST(CodeLayout, TheDrawingsOfTheHeaderHold) {
  const CodeLayout shared{4, 16}, own{4, 1};
  EXPECT_EQ(shared.unit_inputs(), 8u);
  EXPECT_EQ(shared.place(0, 3, 2).byte, 4u * 3 + 2);
  EXPECT_EQ(shared.place(0, 3, 6).byte, 4u * 3 + 2);
  EXPECT_EQ(shared.place(0, 3, 6).shift, 4u);
  EXPECT_EQ(own.unit_inputs(), 128u);
  EXPECT_EQ(own.place(0, 0, 65).byte, 1u);
  EXPECT_EQ(own.place(0, 0, 65).shift, 4u);
}

TEST(CodeLayout, InputsArePaddedToWholeUnitsAndBlocks) {
  EXPECT_EQ((CodeLayout{4, 16}.padded_inputs(33)), 64u);
  EXPECT_EQ((CodeLayout{4, 1}.padded_inputs(129)), 256u);
  EXPECT_EQ((CodeLayout{1, 1}.padded_inputs(512)), 512u);
}

}  // namespace
}  // namespace nibble::quant

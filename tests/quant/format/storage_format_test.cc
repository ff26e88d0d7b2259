#include "quant/format/storage_format.h"

#include <gmock/gmock.h>

#include <set>

#include "quant/format/codes.h"

namespace nibble::quant {
namespace {

using testing::UnorderedElementsAre;

TEST(StorageFormats, AreFoundByNameAndByValue) {
  std::set<std::string_view> names;
  std::vector<Format> formats;
  for (const StorageFormat* line : storage_formats()) {
    EXPECT_TRUE(names.insert(line->name).second) << line->name << " is there twice";
    formats.push_back(line->format);
    EXPECT_EQ(&storage_format(line->format), line) << line->name;
    EXPECT_EQ(find_storage_format(line->name), line);
  }
  EXPECT_THAT(formats, UnorderedElementsAre(Format::kPalette, Format::kUniform, Format::kInt4Block,
                                            Format::kBlockPalette, Format::kFloat16));
  EXPECT_EQ(find_storage_format("float4"), nullptr);
  EXPECT_EQ(find_storage_format(""), nullptr);
}

TEST(StorageFormats, SayWhatTheirCodesMayBe) {
  for (const StorageFormat* line : storage_formats()) {
    ASSERT_FALSE(line->bits.empty()) << line->name;
    for (const unsigned bits : line->bits) {
      if (!line->coding) continue;
      EXPECT_TRUE(bits >= 1 && bits <= kMaxBits) << line->name << ": " << bits;
    }
    EXPECT_EQ(line->takes("bits"), line->bits.size() > 1) << line->name << ": a recipe chooses where there is a choice";
    EXPECT_EQ(line->keys.empty(), !line->coding) << line->name << ": plain values have no settings";
  }
}

TEST(StorageFormats, DescribeThemselvesAsReportsShowThem) {
  const auto text = [](Format format, TensorSpec spec) { return storage_format(format).describe(spec); };
  EXPECT_EQ(text(Format::kPalette, {.bits = 3, .group_size = 0}), "palette 3-bit tensor");
  EXPECT_EQ(text(Format::kPalette, {.bits = 4, .group_size = 1}), "palette 4-bit channel");
  EXPECT_EQ(text(Format::kPalette, {.bits = 4, .group_size = 8}), "palette 4-bit channel-group 8");
  EXPECT_EQ(text(Format::kPalette, {.bits = 8, .group_size = 0, .cluster_dim = 2}),
            "palette 8-bit vectors of 2 tensor");
  EXPECT_EQ(text(Format::kPalette, {.bits = 2, .group_size = 0, .window_bits = 6}), "palette 2-bit window-6 tensor");
  EXPECT_EQ(text(Format::kUniform, {.coding = Coding::kBlocks, .bits = 3, .group_size = 0}), "uniform 3-bit row");
  EXPECT_EQ(text(Format::kUniform, {.coding = Coding::kBlocks, .bits = 5, .group_size = 64}), "uniform 5-bit block 64");
  EXPECT_EQ(text(Format::kInt4Block, {.coding = Coding::kBlocks, .group_size = 32}), "int4-block 32");
  EXPECT_EQ(text(Format::kBlockPalette, {.coding = Coding::kBlockPalette, .bits = 3, .group_size = 16}),
            "block-palette 3-bit 16");
  EXPECT_EQ(text(Format::kBlockPalette, {.coding = Coding::kBlockPalette,
                                         .group_size = 32,
                                         .block_palette = BlockPalette::kFp4,
                                         .scale_type = ScaleType::kE8M0}),
            "block-palette fp4 32 e8m0 scales");
  EXPECT_EQ(text(Format::kFloat16, {}), "float16");
}

}  // namespace
}  // namespace nibble::quant

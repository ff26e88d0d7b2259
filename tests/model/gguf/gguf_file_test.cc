#include "model/gguf/gguf_file.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "tests/model/gguf/tiny_gguf.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using test::gguf_bytes;
using test::le;
using test::pair;
using test::TempDir;
using test::text;
using test::throws_with;
using test::write_file;

std::vector<std::string> split_pairs(std::uint16_t number, std::uint16_t count, std::int32_t tensors) {
  return {pair("split.no", 2, le(number)), pair("split.count", 2, le(count)),
          pair("split.tensors.count", 5, le(tensors))};
}

std::string part(std::uint16_t number, std::uint16_t count, std::int32_t tensors, const std::string& tensor,
                 char fill) {
  std::vector<std::string> pairs = split_pairs(number, count, tensors);
  if (number == 0) pairs.push_back(pair("general.architecture", 8, text("llama")));
  return gguf_bytes(pairs, {{tensor, {8}, 0, 0}}, std::string(32, fill));
}

template <class... Words>
testing::AssertionResult refuses(const std::filesystem::path& path, Words... words) {
  return throws_with<FormatError>([&] { GgufFile::open(path); }, words...);
}

TEST(GgufFiles, AreOpenedAndAskedByName) {
  const TempDir directory;
  write_file(directory / "m.gguf", gguf_bytes({pair("general.architecture", 8, text("llama"))},
                                              {{"blk.0.attn_q.weight", {8}, 0, 0}}, std::string(32, 'q')));
  const auto file = GgufFile::open(directory / "m.gguf");
  EXPECT_EQ(file->metadata().need_text("general.architecture"), "llama");
  ASSERT_NE(file->find("blk.0.attn_q.weight"), nullptr);
  EXPECT_EQ(file->find("other"), nullptr);
  EXPECT_EQ(file->tensor_bytes(), 32u);
  EXPECT_EQ(file->path(), directory / "m.gguf");
  EXPECT_TRUE(throws_with<FormatError>([&] { (void)file->tensor("blk.0.attn_k.weight"); },
                                       "missing tensor 'blk.0.attn_k.weight'", "m.gguf",
                                       "did you mean 'blk.0.attn_q.weight'?"));
  file->release(file->tensor("blk.0.attn_q.weight"));
  EXPECT_EQ(std::to_integer<char>(file->tensor("blk.0.attn_q.weight").data[0]), 'q');
}

TEST(GgufFiles, ThatAreNotThereOrNoFilesAreRefused) {
  const TempDir directory;
  EXPECT_TRUE(refuses(directory / "none.gguf", "none.gguf"));
  EXPECT_TRUE(refuses(directory.path(), "regular file"));
  write_file(directory / "empty.gguf", "");
  EXPECT_TRUE(refuses(directory / "empty.gguf", "empty.gguf", "got 0"));
}

TEST(GgufFiles, OfASplitAreOpenedThroughTheFirst) {
  const TempDir directory;
  write_file(directory / "m-00001-of-00003.gguf", part(0, 3, 3, "a", 'a'));
  write_file(directory / "m-00002-of-00003.gguf", part(1, 3, 3, "b", 'b'));
  write_file(directory / "m-00003-of-00003.gguf", part(2, 3, 3, "c", 'c'));
  const auto file = GgufFile::open(directory / "m-00001-of-00003.gguf");
  EXPECT_EQ(file->tensors().size(), 3u);
  EXPECT_EQ(file->metadata().need_text("general.architecture"), "llama");
  for (const char* const name : {"a", "b", "c"}) {
    EXPECT_EQ(std::to_integer<char>(file->tensor(name).data[31]), name[0]);
    file->check_intact(file->tensor(name));
  }
  EXPECT_EQ(file->path(), directory / "m-00001-of-00003.gguf");

  EXPECT_TRUE(refuses(directory / "m-00002-of-00003.gguf", "is file 2 of a split", "-00001-of-00003.gguf"));
  std::filesystem::resize_file(directory / "m-00002-of-00003.gguf", 40);
  EXPECT_TRUE(throws_with<FormatError>([&] { file->check_intact(file->tensor("b")); }, "m-00002-of-00003.gguf"));
  file->check_intact(file->tensor("a"));
}

TEST(GgufFiles, OfASplitThatDoNotBelongTogetherAreRefused) {
  const TempDir directory;
  const auto first = directory / "m-00001-of-00002.gguf", second = directory / "m-00002-of-00002.gguf";
  write_file(first, part(0, 2, 2, "a", 'a'));
  EXPECT_TRUE(refuses(first, "one of 2 files", "m-00002-of-00002.gguf' is not there", "Incomplete download?"));
  write_file(second, part(0, 2, 2, "b", 'b'));
  EXPECT_TRUE(refuses(second, "ends in '-00001-of-00002.gguf'"));
  EXPECT_TRUE(refuses(first, "should be file 2 of 2, but its metadata say 1 of 2"));
  write_file(second, part(1, 3, 2, "b", 'b'));
  EXPECT_TRUE(refuses(first, "say 2 of 3"));
  write_file(second, gguf_bytes({}, {}, ""));
  EXPECT_TRUE(refuses(first, "say none of none"));
  write_file(second, part(1, 2, 2, "a", 'b'));
  EXPECT_TRUE(refuses(first, "the tensor 'a' of", "in an earlier file"));
  write_file(second, gguf_bytes(split_pairs(1, 2, 2), {}, ""));
  EXPECT_TRUE(refuses(first, "hold 1 tensors; 'split.tensors.count' says 2"));
  write_file(second, "GGUF");
  EXPECT_TRUE(refuses(first, "m-00002-of-00002.gguf", "ends inside the version"));
  write_file(directory / "renamed.gguf", part(0, 2, 2, "a", 'a'));
  EXPECT_TRUE(refuses(directory / "renamed.gguf", "first of 2 files", "the name it was published under"));
  write_file(directory / "m-00001-of-00003.gguf", part(0, 2, 2, "a", 'a'));
  EXPECT_TRUE(refuses(directory / "m-00001-of-00003.gguf", "first of 2 files"));
  write_file(directory / "m-00001-of-60000.gguf", part(0, 60000, 2, "a", 'a'));
  EXPECT_TRUE(refuses(directory / "m-00001-of-60000.gguf", "one of 60000 files; the limit is 10000"));
}

TEST(GgufFiles, OfASplitHaveNamesThatSaySo) {
  const auto name = parse_split_name("Model-7B-00012-of-00345.gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->stem, "Model-7B");
  EXPECT_EQ(name->number, 12u);
  EXPECT_EQ(name->count, 345u);
  EXPECT_EQ(split_file_name(*name), "Model-7B-00012-of-00345.gguf");
  for (const char* const other : {"m.gguf", "m-1-of-2.gguf", "m-00001-of-0002x.gguf", "m-00001-or-00002.gguf",
                                  "m+00001-of-00002.gguf", "m-00001-of-00002.bin", "m--0001-of-00002.gguf", ""})
    EXPECT_FALSE(parse_split_name(other)) << other;
}

}  // namespace
}  // namespace nibble::model

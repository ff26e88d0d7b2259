#include "model/gguf/gguf_writer.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "model/gguf/gguf_file.h"
#include "tests/model/gguf/tiny_gguf.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using test::pair;
using test::read_file;
using test::TempDir;
using test::text;
using test::throws_with;
using test::u32;

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

GgufMetadata some_metadata() {
  GgufMetadata metadata;
  metadata.add("general.architecture", GgufValue(std::string("llama")));
  metadata.add("llama.block_count", GgufValue(std::uint32_t{2}));
  const std::string tokens[]{"a", "", "b c"};
  metadata.add("tokenizer.ggml.tokens", GgufValue::strings(tokens));
  const float scores[]{0.0f, -1.5f, 2.0f};
  metadata.add("tokenizer.ggml.scores", GgufValue::floats(scores));
  const std::int32_t types[]{1, 3, -6};
  metadata.add("tokenizer.ggml.token_type", GgufValue::integers(types));
  metadata.add("tokenizer.ggml.add_bos_token", GgufValue(false));
  return metadata;
}

TEST(GgufWriter, WritesTheBytesOfTheFormat) {
  const TempDir directory;
  GgufWriter writer(directory / "m.gguf", some_metadata(),
                    {{"a", BlockType::kQ4_0, {2, 32}}, {"none", BlockType::kF32, {0}}, {"b", BlockType::kF32, {8, 1}}});
  const std::string a(36, 'a'), b(32, 'b');
  writer.write(bytes(a.substr(0, 1)));
  writer.write({});
  writer.write(bytes(a.substr(1)));
  EXPECT_FALSE(std::filesystem::exists(directory / "m.gguf")) << "not before commit()";
  writer.write(bytes(b));
  writer.commit();
  const auto array = [](std::uint32_t type, std::uint64_t size) { return u32(type) + test::u64(size); };
  const std::string expected = test::gguf_bytes(
      {pair("general.architecture", 8, text("llama")), pair("llama.block_count", 4, u32(2)),
       pair("tokenizer.ggml.tokens", 9, array(8, 3) + text("a") + text("") + text("b c")),
       pair("tokenizer.ggml.scores", 9, array(6, 3) + test::le(0.0f) + test::le(-1.5f) + test::le(2.0f)),
       pair("tokenizer.ggml.token_type", 9, array(5, 3) + u32(1) + u32(3) + test::le(-6)),
       pair("tokenizer.ggml.add_bos_token", 7, std::string(1, '\0'))},
      {{"a", {32, 2}, 2, 0}, {"none", {0}, 0, 64}, {"b", {1, 8}, 0, 64}}, a + std::string(28, '\0') + b);
  EXPECT_EQ(read_file(directory / "m.gguf"), expected);
  EXPECT_EQ(writer.bytes_written(), expected.size());
  EXPECT_EQ(GgufFile::open(directory / "m.gguf")->tensors().size(), 3u);
}

TEST(GgufWriter, PadsToAnotherAlignmentAndAfterTheLast) {
  const TempDir directory;
  GgufMetadata metadata;
  metadata.add("general.alignment", GgufValue(std::uint32_t{128}));
  GgufWriter writer(directory / "m.gguf", metadata, {{"a", BlockType::kF32, {1}}, {"b", BlockType::kF32, {1}}});
  writer.write(bytes("aaaa"));
  writer.write(bytes("bbbb"));
  writer.commit();
  EXPECT_EQ(std::filesystem::file_size(directory / "m.gguf") % 128, 0u);
  const auto file = GgufFile::open(directory / "m.gguf");
  EXPECT_EQ(file->tensor("b").data.data() - file->tensor("a").data.data(), 128);
  EXPECT_EQ(std::to_integer<char>(file->tensor("b").data[0]), 'b');
}

TEST(GgufWriter, RefusesWhatReadersWould) {
  const TempDir directory;
  const auto refuses = [&](const GgufMetadata& metadata, std::vector<GgufDeclaration> tensors, auto... words) {
    return throws_with<InvalidArgument>([&] { GgufWriter(directory / "m.gguf", metadata, tensors); }, words...);
  };
  const GgufMetadata none;
  EXPECT_TRUE(refuses(none, {{"", BlockType::kF32, {1}}}, "no tensor can be named ''"));
  EXPECT_TRUE(refuses(none, {{std::string(64, 'n'), BlockType::kF32, {1}}}, "expected 1 to 63 bytes"));
  EXPECT_TRUE(refuses(none, {{"a\n", BlockType::kF32, {1}}}, "no tensor can be named 'a?'"));
  EXPECT_TRUE(refuses(none, {{"a", BlockType::kF32, {1}}, {"a", BlockType::kF16, {1}}}, "'a' is declared twice"));
  EXPECT_TRUE(refuses(none, {{"a", BlockType::kF32, {1, 1, 1, 1, 1}}}, "5 dimensions; expected at most 4"));
  EXPECT_TRUE(refuses(none, {{"a", BlockType::kQ6_K, {2, 384}}}, "rows of 384 weights; Q6_K needs a multiple of 256"));
  GgufMetadata odd;
  odd.add("general.alignment", GgufValue(std::uint32_t{24}));
  EXPECT_TRUE(refuses(odd, {}, "a power of two", "24"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { odd.add("general.alignment", GgufValue(1.0f)); }, "is there already"));
  GgufMetadata nameless;
  nameless.add("", GgufValue(true));
  EXPECT_TRUE(refuses(nameless, {}, "a key of 0 bytes"));
  EXPECT_TRUE(throws_with<FormatError>(
      [&] {
        const std::uint64_t large = std::uint64_t{1} << 40;
        GgufWriter(directory / "m.gguf", none, {{"a", BlockType::kF32, {large, large}}});
      },
      "overflows 64 bits"));
  EXPECT_FALSE(std::filesystem::exists(directory / "m.gguf"));
}

TEST(GgufWriter, CountsTheBytes) {
  const TempDir directory;
  GgufWriter writer(directory / "m.gguf", GgufMetadata(), {{"a", BlockType::kF32, {2}}, {"b", BlockType::kF32, {1}}});
  EXPECT_TRUE(
      throws_with<InvalidArgument>([&] { writer.write(bytes("123456789")); }, "'a' has room for 8 more bytes, got 9"));
  writer.write(bytes("12345678"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { writer.commit(); }, "'b' is incomplete: 4 bytes are missing"));
  writer.write(bytes("1234"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { writer.write(bytes("1")); }, "1 bytes after the last"));
  writer.commit();
  EXPECT_TRUE(throws_with<FormatError>([&] { GgufWriter(directory / "no" / "m.gguf", GgufMetadata(), {}); }, "m.gguf"));
}

}  // namespace
}  // namespace nibble::model

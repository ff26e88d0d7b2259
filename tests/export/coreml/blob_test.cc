#include <gtest/gtest.h>

#include "core/error.h"
#include "core/text/json.h"
#include "export/coreml/blob_reader.h"
#include "export/coreml/blob_writer.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::coreml {
namespace {

using test::TempDir;

BlobPlan::Producer codes(unsigned bits, std::vector<int> values) {
  return [=](const ByteSink& sink) {
    BitPacker packer(bits, sink);
    std::vector<std::uint8_t> all;
    for (const int value : values) all.push_back(static_cast<std::uint8_t>(value & ((1 << bits) - 1)));
    packer.append(all);
    packer.finish();
  };
}
BlobPlan::Producer bytes(std::string text) {
  return [=](const ByteSink& sink) { sink(std::as_bytes(std::span(text))); };
}

std::string hex_of(std::string_view text) {
  std::string hex;
  for (const char c : text) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return hex;
}

std::string file_of(const BlobPlan& plan) {
  const TempDir dir;
  plan.write(dir / "weight.bin", {});
  return test::read_file(dir / "weight.bin");
}

TEST(CoreMlBlob, PacksCodesAsApplesWriterDoes) {
  const auto packed = [](DataType type, std::vector<int> values) {
    BlobPlan plan;
    EXPECT_EQ(plan.add(type, values.size(), "codes", codes(data_type_bits(type), values)), 64u);
    return hex_of(file_of(plan).substr(128));
  };
  EXPECT_EQ(packed(DataType::kInt4, {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7}), "98badcfe10325476");
  EXPECT_EQ(packed(DataType::kInt4, {1, -1, 7}), "f107");
  EXPECT_EQ(packed(DataType::kUInt4, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}), "1032547698badcfe");
  EXPECT_EQ(packed(DataType::kUInt3, {0, 1, 2, 3, 4, 5, 6, 7, 5}), "88c6fa05");
  EXPECT_EQ(packed(DataType::kUInt6, {1, 2, 3, 63, 33}), "8130fc21");
  EXPECT_EQ(packed(DataType::kUInt2, {0, 1, 2, 3, 3}), "e403");
  EXPECT_EQ(packed(DataType::kUInt1, {1, 0, 0, 1, 1, 1, 0, 1, 1}), "b901");
}

TEST(CoreMlBlob, WritesTheGoldenFile) {
  BlobPlan plan;
  EXPECT_EQ(plan.add(DataType::kInt4, 3, "a", codes(4, {1, -1, 7})), 64u);
  EXPECT_EQ(plan.add(DataType::kFloat16, 2, "b", bytes(std::string("\x00\x3c\x00\xc0", 4))), 192u);
  std::string expected(260, '\0');
  const auto put = [&](std::size_t at, std::initializer_list<int> values) {
    for (const int value : values) expected[at++] = static_cast<char>(value);
  };
  put(0, {2, 0, 0, 0, 2});
  put(0x40, {0xef, 0xbe, 0xad, 0xde, 8, 0, 0, 0, 2});
  put(0x50, {0x80, 0, 0, 0, 0, 0, 0, 0, 4});
  put(0x80, {0xf1, 0x07});
  put(0xc0, {0xef, 0xbe, 0xad, 0xde, 1, 0, 0, 0, 4});
  put(0xd0, {0, 1});
  put(0x100, {0x00, 0x3c, 0x00, 0xc0});
  EXPECT_EQ(plan.file_bytes(), 260u);
  EXPECT_EQ(hex_of(file_of(plan)), hex_of(expected));
}

// Files that coremltools wrote: what ../shared/golden/exports has of Core ML.
TEST(CoreMlBlob, WritesAndReadsFilesOfCoremltools) {
  NIBBLE_NEEDS_SHARED("golden/exports/golden_vectors.json");
  const auto golden = nlohmann::json::parse(test::read_file(test::shared_path("golden/exports/golden_vectors.json")));
  std::size_t files = 0;
  for (const auto& [name, entry] : golden.at("formats").items()) {
    if (!name.starts_with("core ml") || !entry.contains("file_hex")) continue;
    const unsigned bits = static_cast<unsigned>(name.at(12) - '0');
    ASSERT_TRUE(name.find(fmt::format("uint{} blob of [", bits)) != std::string::npos) << name;
    const auto values = nlohmann::json::parse(name.substr(name.find('['))).get<std::vector<int>>();
    BlobPlan plan;
    plan.add(unsigned_type(bits), values.size(), name, codes(bits, values));
    EXPECT_EQ(hex_of(file_of(plan)), entry.at("file_hex")) << name;
    const TempDir dir;
    plan.write(dir / "w", {});
    const BlobFile file(dir / "w");
    const auto found = file.find({unsigned_type(bits), {values.size()}}, 64);
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(code_at(found, i, bits), values[i]) << name << " " << i;
    ++files;
  }
  EXPECT_EQ(files, 4u);
}

TEST(CoreMlBlob, RefusesFilesThatAreWrong) {
  const TempDir dir;
  BlobPlan plan;
  plan.add(DataType::kUInt3, 5, "a", codes(3, {1, 2, 3, 4, 5}));
  plan.add(DataType::kFloat16, 1, "b", bytes(std::string("\x00\x3c", 2)));
  const std::string good = file_of(plan);
  const auto refused = [&](std::size_t at, int value, std::string_view word) {
    std::string bad = good;
    bad[at] = static_cast<char>(value);
    test::write_file(dir / "bad", bad);
    return test::throws_with<FormatError>([&] { BlobFile file(dir / "bad"); }, word);
  };
  test::write_file(dir / "good", good);
  const BlobFile file(dir / "good");
  EXPECT_EQ(file.blobs().size(), 2u);
  EXPECT_TRUE(refused(0, 3, "lies outside"));
  EXPECT_TRUE(refused(0, 1, "behind its 1 blobs"));
  EXPECT_TRUE(refused(4, 1, "version"));
  EXPECT_TRUE(refused(20, 1, "version"));
  EXPECT_TRUE(refused(64, 0, "no record"));
  EXPECT_TRUE(refused(68, 99, "type 99"));
  EXPECT_TRUE(refused(72, 255, "outside"));
  EXPECT_TRUE(refused(79, 255, "outside"));
  EXPECT_TRUE(refused(80, 0, "outside"));
  EXPECT_TRUE(refused(88, 2, "unused bits"));
  EXPECT_TRUE(refused(100, 1, "no record"));
  EXPECT_TRUE(refused(129, 0xff, "unused bits are not zero"));
  EXPECT_TRUE(refused(140, 1, "between blobs"));
  EXPECT_TRUE(test::throws_with<FormatError>(
      [&] {
        static_cast<void>(file.find({DataType::kUInt3, {5}}, 100));
      },
      "no blob record"));
  EXPECT_TRUE(test::throws_with<FormatError>(
      [&] {
        static_cast<void>(file.find({DataType::kUInt3, {6}}, 64));
      },
      "5 elements"));
  EXPECT_TRUE(test::throws_with<FormatError>(
      [&] {
        static_cast<void>(file.find({DataType::kUInt2, {5}}, 64));
      },
      "type 12"));
  for (const std::size_t size : {0u, 10u, 63u, 70u, 127u, 129u}) {
    test::write_file(dir / "bad", good.substr(0, size));
    EXPECT_THROW(BlobFile cut(dir / "bad"), FormatError) << size;
  }
}

TEST(CoreMlBlob, NoticesAProducerOfTheWrongLength) {
  const TempDir dir;
  BlobPlan plan;
  plan.add(DataType::kFloat16, 3, "short", bytes("1234"));
  EXPECT_TRUE(test::throws_with<FormatError>([&] { plan.write(dir / "w", {}); }, "short", "6 bytes", "has 4"));
  EXPECT_FALSE(std::filesystem::exists(dir / "w"));
}

}  // namespace
}  // namespace nibble::coreml

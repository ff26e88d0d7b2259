#include "quant/job/shards/shard.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/text/json.h"
#include "model/checkpoint/safetensors_file.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

constexpr std::string_view kWeight = "h.0.mlp.c_fc.weight";

Shard write(const std::filesystem::path& file, Flush flush) {
  static const std::array<std::uint16_t, 4> values = {1, 2, 3, 0x3c00};
  WeightParts made;
  made.parts.push_back({"weight", DType::kF16, {2, 2}, std::as_bytes(std::span(values)), nullptr});
  made.bias_correction = {0.5f, -1.0f};
  TensorResult result{};
  result.name = kWeight;
  result.seconds = 0.25;
  return write_shard(file, result, std::move(made), flush);
}

std::string damaged(std::string bytes) {
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  return bytes;
}

TEST(Shard, IsFoundAsItWasWritten) {
  const test::TempDir dir;
  for (const Flush flush : {Flush::kYes, Flush::kNo}) {
    write(dir / "w.safetensors", flush);
    const auto found = find_shard(dir / "w.safetensors", std::string(kWeight));
    ASSERT_TRUE(found);
    EXPECT_TRUE(found->result.resumed);
    EXPECT_EQ(found->result.seconds, 0.25);
    EXPECT_EQ(found->bias_correction, (std::vector<float>{0.5f, -1.0f}));
    ASSERT_EQ(found->tensors.size(), 1u);
    EXPECT_EQ(found->tensors[0].name, std::string(kWeight) + ".weight");
  }
}

TEST(Shard, IsMadeAgainWhereItIsDamaged) {
  const test::TempDir dir;
  write(dir / "w.safetensors", Flush::kNo);
  const std::string bytes = test::read_file(dir / "w.safetensors");
  for (const std::string& left : {damaged(bytes), std::string(bytes.size(), '\0'), bytes.substr(0, bytes.size() / 2),
                                  std::string()}) {  // as a power cut may leave it
    test::write_file(dir / "w.safetensors", left);
    EXPECT_FALSE(find_shard(dir / "w.safetensors", std::string(kWeight)));
  }
  EXPECT_FALSE(find_shard(dir / "absent.safetensors", std::string(kWeight)));
}

TEST(Shard, DamageUnderwayNeverReachesTheOutput) {
  const test::TempDir dir;
  const Shard shard = write(dir / "w.safetensors", Flush::kNo);
  const auto append = [&] {
    model::SafetensorsWriter writer(dir / "model.safetensors", shard.tensors);
    append_shard(shard, writer);
    writer.commit();
  };
  append();
  const std::string bytes = test::read_file(dir / "model.safetensors");
  const auto whole = model::parse_safetensors(std::as_bytes(std::span(bytes)), "model.safetensors");
  ASSERT_EQ(whole.tensors.size(), 1u);
  EXPECT_EQ(whole.tensors[0].data.size(), 8u);
  std::filesystem::remove(dir / "model.safetensors");
  test::write_file(dir / "w.safetensors", damaged(test::read_file(dir / "w.safetensors")));
  EXPECT_TRUE(test::throws_with<FormatError>([&] { shard_parts(shard); }, "does not hold what was written"));
  EXPECT_TRUE(test::throws_with<FormatError>(append, "w.safetensors", "does not hold what was written", "again"));
  EXPECT_FALSE(std::filesystem::exists(dir / "model.safetensors"));
}

}  // namespace
}  // namespace nibble::quant

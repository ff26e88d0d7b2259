#include "model/gguf/gguf_checkpoint.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "core/error.h"
#include "core/random.h"
#include "model/checkpoint/narrow_tensors.h"
#include "model/checkpoint/weights.h"
#include "tests/model/gguf/tiny_llama.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using test::TempDir;
using test::throws_with;
using test::TinyLlama;
using test::write_file;

constexpr const char* kQ = "model.layers.0.self_attn.q_proj.weight";
constexpr const char* kV = "model.layers.0.self_attn.v_proj.weight";

class GgufCheckpoints : public testing::Test {
 protected:
  std::shared_ptr<const Checkpoint> open(const TinyLlama& model, const char* name = "model.gguf") {
    write_file(dir / name, model.bytes());
    return open_gguf_checkpoint(dir / name);
  }
  static std::vector<float> floats(std::string_view bytes) {
    std::vector<float> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), 4 * values.size());
    return values;
  }
  static std::vector<float> rows(const WeightSource& source) {
    std::vector<float> values(source.rows() * source.cols());
    source.decode_rows(0, source.rows(), values.data());
    return values;
  }
  TempDir dir;
};

TEST_F(GgufCheckpoints, HaveTheNamesOfTheFamilysOwn) {
  TinyLlama model;
  model.add("rope_freqs.weight", {8});  // no parameter
  model.tensor("rope_freqs.weight").data.clear();
  for (int i = 0; i < 8; ++i) model.tensor("rope_freqs.weight").data += test::le(1.0f);
  model.tensor("rope_freqs.weight").data.clear();
  for (int i = 0; i < 8; ++i) model.tensor("rope_freqs.weight").data += test::le(1.0f);
  const auto checkpoint = open(model);
  EXPECT_EQ(checkpoint->tensor_names().size(), 11u);
  EXPECT_TRUE(std::is_sorted(checkpoint->tensor_names().begin(), checkpoint->tensor_names().end()));
  for (const std::string& name : checkpoint->tensor_names()) EXPECT_TRUE(checkpoint->contains(name));
  EXPECT_TRUE(checkpoint->contains(kQ));
  EXPECT_FALSE(checkpoint->contains("blk.0.attn_q.weight"));
  EXPECT_FALSE(checkpoint->contains("lm_head.weight")) << "the head is the embedding";
  EXPECT_THAT(checkpoint->metadata(), testing::HasSubstr("\"model_type\": \"llama\""));
  EXPECT_TRUE(throws_with<FormatError>([&] { checkpoint->tensor("model.layers.0.self_attn.q_prj.weight"); },
                                       "missing tensor", "model.gguf", kQ));
}

TEST_F(GgufCheckpoints, GivePlainFloatsWhereTheyLie) {
  TinyLlama model;
  const auto checkpoint = open(model);
  const TensorView v = checkpoint->tensor(kV);
  EXPECT_EQ(v.dtype, DType::kF32);
  EXPECT_EQ(v.shape, (std::vector<std::uint64_t>{16, 32}));
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(v.data.data()), v.data.size()),
            model.tensor("blk.0.attn_v.weight").data);
  EXPECT_EQ(checkpoint->encoded(kV), nullptr);
  checkpoint->check_intact(v);
  checkpoint->release(v);
}

TEST_F(GgufCheckpoints, DecodeWhatTheConverterMoved) {
  TinyLlama model;
  const auto checkpoint = open(model);
  const EncodedTensor* const q = checkpoint->encoded(kQ);
  ASSERT_NE(q, nullptr) << "its rows lie in another order";
  EXPECT_EQ(q->storage, "F32");
  EXPECT_EQ(q->bytes, 32u * 32 * 4);
  EXPECT_EQ(q->place.shape(), (std::vector<std::uint64_t>{32, 32}));
  ASSERT_EQ(q->stored.size(), 1u);
  EXPECT_EQ(q->stored[0].name, "blk.0.attn_q.weight");
  EXPECT_EQ(q->stored[0].shape, (std::vector<std::uint64_t>{32, 128}));
  const std::vector<float> stored = floats(model.tensor("blk.0.attn_q.weight").data);
  std::vector<float> expected(stored.size());
  for (std::size_t head = 0; head < 2; ++head)
    for (std::size_t i = 0; i < 8; ++i)
      for (std::size_t half = 0; half < 2; ++half)
        std::copy_n(stored.data() + (head * 16 + 2 * i + half) * 32, 32,
                    expected.data() + (head * 16 + half * 8 + i) * 32);
  EXPECT_TRUE(test::same_bits(rows(*checkpoint->decoded(kQ, 0)), expected));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { checkpoint->tensor(kQ); }, kQ, "F32", "decoded"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { checkpoint->decoded(kQ, 1); }, "slice 1"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { checkpoint->decoded(kV, 0); }, kV));
}

TEST_F(GgufCheckpoints, SayHowBlocksAreStored) {
  TinyLlama model;
  model.make_q8_0("blk.0.attn_v.weight");
  const auto checkpoint = open(model);
  const NarrowTensors narrow(*checkpoint);
  const auto found = narrow.find(kV);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->storage(), "Q8_0");
  EXPECT_EQ(found->bytes(), 16u * 34);
  EXPECT_EQ(found->weights(), 16u * 32);
  EXPECT_TRUE(test::near(found->bits_per_weight(), 8.5, {}));
  EXPECT_EQ(stored_bytes(*checkpoint, kV), 16u * 34);
  EXPECT_EQ(stored_bytes(*checkpoint, "model.norm.weight"), 32u * 4);
  const auto part = narrow.part_of(kV);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->kind, NarrowPart::Kind::kCodes);
  const auto source = narrow.source(checkpoint, *found, narrow.place_of(*found));
  const auto provider = make_float_provider(checkpoint);
  EXPECT_TRUE(
      test::same_bits(rows(*source), rows(*provider->matrix(checkpoint->architecture().blocks[0].attention.v))));
  const auto& bytes = model.tensor("blk.0.attn_v.weight").data;
  EXPECT_TRUE(test::near(rows(*source)[0], static_cast<signed char>(bytes[2]) / 128.0, {}));
}

TEST_F(GgufCheckpoints, PutVectorsTogether) {
  TinyLlama model;
  model.add("blk.0.attn_q.bias", {32});
  model.add("blk.0.attn_k.bias", {16});
  model.add("blk.0.attn_v.bias", {16});
  model.add("blk.0.attn_output.bias", {32});
  const auto checkpoint = open(model);
  const TensorView bias = checkpoint->tensor("model.layers.0.self_attn.q_proj.bias");
  EXPECT_EQ(bias.dtype, DType::kF32);
  EXPECT_EQ(bias.shape, (std::vector<std::uint64_t>{32}));
  const std::vector<float> stored = floats(model.tensor("blk.0.attn_q.bias").data);
  float second = 0.0f;
  std::memcpy(&second, bias.data.data() + 4, 4);
  EXPECT_TRUE(test::near(second, stored[2], {})) << "moved with its row";
  EXPECT_EQ(checkpoint->tensor("model.layers.0.self_attn.q_proj.bias").data.data(), bias.data.data()) << "made once";
  checkpoint->check_intact(bias);
  checkpoint->release(bias);
}

TEST_F(GgufCheckpoints, HaveAFingerprintOfWhatTheyHold) {
  TinyLlama model;
  const std::string one = open(model)->fingerprint();
  EXPECT_EQ(open(model, "again.gguf")->fingerprint(), one);
  std::reverse(model.tensors.begin(), model.tensors.end());
  model.set("general.name", 8, test::text("another"));
  EXPECT_EQ(open(model)->fingerprint(), one) << "the order in the file and a name are no part of the model";
  model.tensor("blk.0.ffn_down.weight").data[7] ^= 1;
  EXPECT_NE(open(model)->fingerprint(), one);
}

TEST_F(GgufCheckpoints, OfASplitAreTheSame) {
  TinyLlama model, first = model, second = model;
  for (auto [part, number] : {std::pair(&first, 0), std::pair(&second, 1)}) {
    if (number == 1) part->keys.clear();
    part->set("split.no", 2, test::le<std::uint16_t>(static_cast<std::uint16_t>(number)));
    part->set("split.count", 2, test::le<std::uint16_t>(2));
    part->set("split.tensors.count", 5, test::le<std::int32_t>(11));
  }
  first.tensors.resize(6);
  second.tensors.erase(second.tensors.begin(), second.tensors.begin() + 6);
  write_file(dir / "m-00002-of-00002.gguf", second.bytes());
  const auto split = open(first, "m-00001-of-00002.gguf");
  EXPECT_EQ(split->fingerprint(), open(model)->fingerprint());
  EXPECT_EQ(split->tensor_bytes(), open(model)->tensor_bytes());
}

TEST_F(GgufCheckpoints, ThatShrinkSaySo) {
  const TinyLlama model;
  const auto checkpoint = open(model);
  const auto source = checkpoint->decoded(kQ, 0);
  std::filesystem::resize_file(dir / "model.gguf", 4096);
  EXPECT_TRUE(throws_with<FormatError>([&] { rows(*source); }, "model.gguf"));
  EXPECT_TRUE(throws_with<FormatError>([&] { checkpoint->check_intact(checkpoint->tensor(kV)); }, "model.gguf"));
}

// Whatever byte of the file is changed: it opens, and everything in it decodes, or it is refused as a file.
TEST_F(GgufCheckpoints, WithAnyByteChangedAreReadOrRefused) {
  const TinyLlama model;
  const std::string bytes = model.bytes();
  const std::size_t header = bytes.size() - 4 * (288 * 32 + 3 * 32 + 32 * 32 * 2 + 2 * 16 * 32 + 3 * 64 * 32);
  Random random(31);
  std::size_t opened = 0, refused = 0;
  for (std::size_t trial = 0; trial < 600; ++trial) {
    std::string spoiled = bytes;
    // Half of them where the keys of the architecture or the tensors' descriptions are, not in the long lists between.
    const std::size_t at = trial % 2 == 0 ? random.below(700) : header - 1 - random.below(900);
    spoiled[at] = static_cast<char>(random.next());
    write_file(dir / "spoiled.gguf", spoiled);
    try {
      const auto checkpoint = open_gguf_checkpoint(dir / "spoiled.gguf");
      for (const std::string& name : checkpoint->tensor_names()) {
        if (checkpoint->encoded(name) != nullptr)
          rows(*checkpoint->decoded(name, 0));
        else
          checkpoint->tensor(name);
      }
      ++opened;
    } catch (const FormatError&) {
      ++refused;
    }
  }
  EXPECT_GT(opened, 10u);
  EXPECT_GT(refused, 200u);
}

}  // namespace
}  // namespace nibble::model

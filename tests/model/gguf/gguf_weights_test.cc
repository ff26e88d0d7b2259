#include "model/gguf/gguf_weights.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "core/error.h"
#include "model/architecture/families.h"
#include "tests/model/gguf/tiny_gguf.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using test::le;
using test::pair;
using test::TempDir;
using test::text;
using test::throws_with;
using test::write_file;

/// Width 4, 2 heads of 2 … but rows of q and k must be moved visibly, so heads of 4 and a width of 8.
constexpr const char* kConfig = R"({"model_type": "llama", "vocab_size": 3, "hidden_size": 8, "intermediate_size": 2,
  "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-5,
  "attention_bias": true, "tie_word_embeddings": true})";

Architecture llama() { return parse_architecture(kConfig, "config.json"); }

class GgufWeights : public testing::Test {
 protected:
  /// Adds an F32 tensor that counts from `first`; `shape` row-major.
  void add(const std::string& name, std::vector<std::uint64_t> shape, float first) {
    std::reverse(shape.begin(), shape.end());
    std::uint64_t count = 1;
    for (const std::uint64_t extent : shape) count *= extent;
    tensors_.push_back({name, shape, 0, data_.size()});
    for (std::uint64_t i = 0; i < count; ++i) data_ += le(first + static_cast<float>(i));
    data_.resize((data_.size() + 31) / 32 * 32);
  }
  std::shared_ptr<const GgufFile> open(std::string_view architecture) {
    write_file(directory_ / "m.gguf",
               test::gguf_bytes({pair("general.architecture", 8, text(architecture))}, tensors_, data_));
    return GgufFile::open(directory_ / "m.gguf");
  }
  std::vector<float> rows(const WeightProvider& provider, const Parameter& parameter) {
    const auto source = provider.matrix(parameter);
    std::vector<float> values(source->rows() * source->cols());
    source->decode_rows(0, source->rows(), values.data());
    return values;
  }
  /// Rows r of 8 numbers from `first` + 8 r, in the order given.
  std::vector<float> counted(float first, const std::vector<int>& order, int width = 8) {
    std::vector<float> values;
    for (const int row : order)
      for (int c = 0; c < width; ++c) values.push_back(first + static_cast<float>(width * row + c));
    return values;
  }

  TempDir directory_;
  std::vector<test::TinyGgufTensor> tensors_;
  std::string data_;
};

TEST_F(GgufWeights, AreFoundByRoleAndPutBackInOrder) {
  add("token_embd.weight", {3, 8}, 1000);
  add("blk.0.attn_q.weight", {8, 8}, 0);
  add("blk.0.attn_q.bias", {8}, 0);
  add("blk.0.attn_k.weight", {4, 8}, 100);
  add("blk.0.attn_k.bias", {4}, 100);
  add("blk.0.attn_v.weight", {4, 8}, 200);
  add("blk.0.attn_norm.weight", {8}, 300);
  const Architecture architecture = llama();
  const auto provider = make_gguf_provider(open("llama"), architecture);
  const AttentionSpec& attention = architecture.blocks[0].attention;
  EXPECT_TRUE(test::same_bits(rows(*provider, attention.q), counted(0, {0, 2, 1, 3, 4, 6, 5, 7})));
  EXPECT_TRUE(test::same_bits(rows(*provider, attention.k), counted(100, {0, 2, 1, 3})));
  EXPECT_TRUE(test::same_bits(rows(*provider, attention.v), counted(200, {0, 1, 2, 3})));
  EXPECT_TRUE(test::same_bits(provider->vector(attention.q.bias), std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_TRUE(test::same_bits(provider->vector(attention.k.bias), std::vector<float>{100, 102, 101, 103}));
  EXPECT_TRUE(test::same_bits(provider->vector(*architecture.blocks[0].attention_norm->gain), counted(300, {0})));
  EXPECT_TRUE(test::same_bits(rows(*provider, architecture.head.linear), counted(1000, {0, 1, 2}))) << "tied";
  EXPECT_TRUE(provider->contains(attention.q.bias.tensor));
  EXPECT_FALSE(provider->contains(attention.v.bias.tensor)) << "the file has none";
  EXPECT_FALSE(provider->contains("something.else"));
  EXPECT_TRUE(throws_with<FormatError>([&] { (void)provider->linear(attention.v); }, "missing tensor",
                                       "self_attn.v_proj.bias"));
  EXPECT_EQ(provider->linear(attention.q)->out_features(), 8u);

  // The same file by a family whose files are not moved.
  const auto plain = make_gguf_provider(open("qwen2"), architecture);
  EXPECT_TRUE(test::same_bits(rows(*plain, attention.q), counted(0, {0, 1, 2, 3, 4, 5, 6, 7})));
}

TEST_F(GgufWeights, AreCutOutOfFusedTensors) {
  add("blk.0.attn_qkv.weight", {16, 8}, 0);
  add("blk.0.attn_qkv.bias", {16}, 0);
  add("blk.0.ffn_up.weight", {4, 8}, 500);
  const Architecture architecture = llama();
  const auto provider = make_gguf_provider(open("phi3"), architecture);
  const BlockSpec& block = architecture.blocks[0];
  EXPECT_TRUE(test::same_bits(rows(*provider, block.attention.q), counted(0, {0, 1, 2, 3, 4, 5, 6, 7})));
  EXPECT_TRUE(test::same_bits(rows(*provider, block.attention.k), counted(0, {8, 9, 10, 11})));
  EXPECT_TRUE(test::same_bits(rows(*provider, block.attention.v), counted(0, {12, 13, 14, 15})));
  EXPECT_TRUE(test::same_bits(provider->vector(block.attention.k.bias), std::vector<float>{8, 9, 10, 11}));
  EXPECT_TRUE(test::same_bits(rows(*provider, *block.mlp->gate), counted(500, {0, 1})));
  EXPECT_TRUE(test::same_bits(rows(*provider, block.mlp->up), counted(500, {2, 3})));
}

TEST_F(GgufWeights, OfExpertsAreTakenOutOfTheirStack) {
  add("blk.0.ffn_gate_inp.weight", {3, 8}, 0);
  add("blk.0.ffn_gate_exps.weight", {3, 2, 8}, 100);
  add("blk.0.ffn_up_exps.weight", {3, 2, 8}, 200);
  add("blk.0.ffn_down.0.weight", {8, 2}, 300);  // as files of 2023 had them
  add("blk.0.ffn_down.2.weight", {8, 2}, 400);
  add("blk.0.ffn_up_shexp.weight", {2, 8}, 500);
  Architecture architecture = llama();
  const auto provider = make_gguf_provider(open("llama"), architecture);
  Parameter gate = *architecture.blocks[0].mlp->gate, up = architecture.blocks[0].mlp->up;
  Parameter down = architecture.blocks[0].mlp->down;
  gate.expert = up.expert = down.expert = 2;
  EXPECT_TRUE(test::same_bits(rows(*provider, gate), counted(100, {4, 5})));
  EXPECT_TRUE(test::same_bits(rows(*provider, up), counted(200, {4, 5})));
  EXPECT_TRUE(test::same_bits(rows(*provider, down), counted(400, {0, 1, 2, 3, 4, 5, 6, 7}, 2)));
  gate.expert = 3;
  EXPECT_TRUE(throws_with<FormatError>([&] { rows(*provider, gate); }, "'blk.0.ffn_gate_exps.weight'",
                                       "expected more than 3 experts, got shape (3, 2, 8)"));
  up.expert.reset();
  up.shared_expert = true;
  EXPECT_TRUE(test::same_bits(rows(*provider, up), counted(500, {0, 1})));
}

TEST_F(GgufWeights, OfNormsLoseTheOneThatFilesAdd) {
  add("blk.0.attn_norm.weight", {8}, 1.25f);
  Architecture architecture = llama();
  architecture.blocks[0].attention_norm->gain_offset = 1.0;
  const Stored& gain = *architecture.blocks[0].attention_norm->gain;
  EXPECT_TRUE(test::same_bits(make_gguf_provider(open("gemma"), architecture)->vector(gain), counted(0.25f, {0})));
  EXPECT_TRUE(test::same_bits(make_gguf_provider(open("llama"), architecture)->vector(gain), counted(1.25f, {0})));
}

TEST_F(GgufWeights, OfAnotherShapeAreRefused) {
  add("blk.0.attn_q.weight", {6, 8}, 0);
  add("blk.0.attn_v.weight", {4, 6}, 0);
  add("blk.0.attn_norm.weight", {7}, 0);
  add("blk.0.attn_qkv.bias", {7}, 0);
  const Architecture architecture = llama();
  const BlockSpec& block = architecture.blocks[0];
  const auto provider = make_gguf_provider(open("llama"), architecture);
  EXPECT_TRUE(throws_with<FormatError>([&] { rows(*provider, block.attention.q); }, "'blk.0.attn_q.weight'", "m.gguf",
                                       "expected 8 rows, got 6 in shape (6, 8)"));
  EXPECT_TRUE(
      throws_with<FormatError>([&] { rows(*provider, block.attention.v); }, "expected rows of 8, got shape (4, 6)"));
  EXPECT_TRUE(
      throws_with<FormatError>([&] { rows(*provider, block.attention.k); }, "missing tensor 'blk.0.attn_k.weight'"));
  EXPECT_TRUE(
      throws_with<FormatError>([&] { provider->vector(*block.attention_norm->gain); }, "expected 8 rows, got 7"));
  EXPECT_TRUE(
      throws_with<FormatError>([&] { provider->vector(block.attention.k.bias); }, "expected at least 8 rows, got 7"));
  EXPECT_TRUE(throws_with<FormatError>([&] { make_gguf_provider(open("lama"), architecture); },
                                       "general.architecture is 'lama'", "did you mean 'llama'?"));
}

}  // namespace
}  // namespace nibble::model

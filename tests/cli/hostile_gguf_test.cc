#include <gmock/gmock.h>

#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "tests/cli/nibble.h"
#include "tests/model/gguf/tiny_llama.h"

// GGUF files that are wrong in one place each, given to the commands as anybody's download would be: exit code 3 and a
// message that says what is wrong, where and what was expected.

namespace nibble::test {
namespace {

using Model = TinyLlama;
using testing::HasSubstr;

struct Hostile {
  const char* name;
  const char* command;  ///< inspect, tokenize or quantize
  std::function<void(Model&)> spoil;
  std::vector<const char*> message;
  std::function<std::string(std::string)> spoil_bytes = {};
};
void PrintTo(const Hostile& hostile, std::ostream* stream) { *stream << hostile.name; }

std::string replaced(std::string bytes, std::size_t at, const std::string& by) {
  return bytes.replace(at, by.size(), by);
}

/// The bytes of a file of these pairs and tensor descriptions alone.
std::function<std::string(std::string)> only(const std::string& bytes) {
  return [bytes](const std::string&) { return bytes; };
}

std::string tensor_file(const std::string& infos, std::uint64_t count,
                        const std::string& data = std::string(4096, '\0')) {
  std::string bytes = gguf_head(count, 1) + pair("general.architecture", 8, text("llama")) + infos;
  bytes.resize((bytes.size() + 31) / 32 * 32);
  return bytes + data;
}

std::string info_of(const std::string& name, const std::vector<std::uint64_t>& extents, std::uint32_t type,
                    std::uint64_t offset) {
  return info({name, extents, type, offset});
}

std::vector<Hostile> cases() {
  const auto none = [](Model&) {};
  const auto key = [](const char* name, std::uint32_t type, std::string value) {
    return [=](Model& model) { model.set(name, type, value); };
  };
  const auto without = [](const char* name) { return [=](Model& model) { model.remove_key(name); }; };
  const auto without_tensor = [](const char* name) { return [=](Model& model) { model.remove_tensor(name); }; };
  const auto shape = [](const char* name, std::vector<std::uint64_t> extents) {
    return [=](Model& model) { model.add(name, extents); };
  };
  const auto nested = [](int depth) {
    std::string value;
    for (int i = 0; i < depth; ++i) value += u32(9) + u64(1);
    return value + u32(4) + u64(0);
  };
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 62;
  return {
      // the container
      {"EmptyFile", "inspect", none, {"X"}, only("")},
      {"AnotherMagic", "inspect", none, {"X"}, [](std::string b) { return replaced(b, 0, "GGML"); }},
      {"Version1", "inspect", none, {"X"}, [](std::string b) { return replaced(b, 4, u32(1)); }},
      {"Version9", "inspect", none, {"X"}, [](std::string b) { return replaced(b, 4, u32(9)); }},
      {"BigEndian", "inspect", none, {"X"}, [](std::string b) { return replaced(b, 4, std::string("\0\0\0\3", 4)); }},
      {"CutInMetadata", "inspect", none, {"X"}, [](const std::string& b) { return b.substr(0, 300); }},
      {"CutInTensors", "inspect", none, {"X"}, [](const std::string& b) { return b.substr(0, b.size() - 5000); }},
      {"ManyTensors", "inspect", none, {"X"}, [](std::string b) { return replaced(b, 8, u64(kHuge)); }},
      {"ManyKeys", "inspect", none, {"X"}, [](std::string b) { return replaced(b, 16, u64(kHuge)); }},
      {"OneTensorTooMany", "inspect", none, {"X"}, [](std::string b) { return replaced(b, 8, u64(12)); }},
      {"LongKey", "inspect", none, {"X"}, only(gguf_head(0, 1) + u64(kHuge) + "general.name")},
      {"KeyTwice",
       "inspect",
       none,
       {"X"},
       only(gguf_head(0, 2) + pair("a.b", 4, u32(1)) + pair("a.b", 4, u32(2)) + std::string(64, '\0'))},
      {"UnknownValueType", "inspect", key("llama.x", 77, u32(1)), {"X"}},
      {"BoolOf2", "inspect", key("llama.x", 7, "\x02"), {"X"}},
      {"LongString", "inspect", key("llama.x", 8, u64(kHuge) + "abc"), {"X"}},
      {"ArrayOfUnknownType", "inspect", key("llama.x", 9, u32(55) + u64(1)), {"X"}},
      {"LongArray", "inspect", key("llama.x", 9, u32(4) + u64(kHuge)), {"X"}},
      {"LongArrayOfStrings", "inspect", key("llama.x", 9, u32(8) + u64(std::uint64_t{1} << 40)), {"X"}},
      {"DeepArrays", "inspect", key("llama.x", 9, nested(40)), {"X"}},
      {"Alignment0", "inspect", key("general.alignment", 4, u32(0)), {"X"}},
      {"Alignment24", "inspect", key("general.alignment", 4, u32(24)), {"X"}},
      {"HugeAlignment", "inspect", key("general.alignment", 4, u32(1u << 31)), {"X"}},
      {"AlignmentOfAnotherKind", "inspect", key("general.alignment", 8, text("32")), {"X"}},
      {"TensorTwice", "inspect", none, {"X"}, only(tensor_file(info_of("a", {8}, 0, 0) + info_of("a", {8}, 0, 32), 2))},
      {"TensorOf5Dimensions", "inspect", none, {"X"}, only(tensor_file(info_of("a", {1, 1, 1, 1, 8}, 0, 0), 1))},
      {"TensorThatOverflows", "inspect", none, {"X"}, only(tensor_file(info_of("a", {kHuge, kHuge}, 0, 0), 1))},
      {"TensorOfUnknownType", "inspect", none, {"X"}, only(tensor_file(info_of("a", {32}, 99, 0), 1))},
      {"TensorOfWithdrawnType", "inspect", none, {"X"}, only(tensor_file(info_of("a", {32}, 4, 0), 1))},
      {"RowsOfHalfABlock", "inspect", none, {"X"}, only(tensor_file(info_of("a", {48}, 8, 0), 1))},
      {"TensorOutOfPlace", "inspect", none, {"X"}, only(tensor_file(info_of("a", {8}, 0, 12), 1))},
      {"TensorBehindTheEnd", "inspect", none, {"X"}, only(tensor_file(info_of("a", {8}, 0, 1u << 20), 1))},
      {"TensorOffsetThatOverflows",
       "inspect",
       none,
       {"X"},
       only(tensor_file(info_of("a", {8}, 0, ~std::uint64_t{31}), 1))},
      {"TensorsThatOverlap",
       "inspect",
       none,
       {"X"},
       only(tensor_file(info_of("a", {32}, 0, 0) + info_of("b", {32}, 0, 64), 2))},
      // splits
      {"FirstOfASplitByAnotherName", "inspect", key("split.count", 2, le<std::uint16_t>(2)), {"X"}},
      {"SplitOfTooMany", "inspect", key("split.count", 4, u32(4'000'000'000u)), {"X"}},
      {"ALaterPartOfASplit",
       "inspect",
       [](Model& model) {
         model.set("split.count", 2, le<std::uint16_t>(3));
         model.set("split.no", 2, le<std::uint16_t>(2));
       },
       {"X"}},
      // the architecture
      {"NoArchitecture", "inspect", without("general.architecture"), {"X"}},
      {"UnknownArchitecture", "inspect", key("general.architecture", 8, text("lama")), {"X"}},
      {"ArchitectureOfAnotherKind", "inspect", key("general.architecture", 4, u32(1)), {"X"}},
      {"NoWidth", "inspect", without("llama.embedding_length"), {"X"}},
      {"WidthOfAnotherKind", "inspect", key("llama.embedding_length", 8, text("32")), {"X"}},
      {"NegativeWidth", "inspect", key("llama.embedding_length", 5, le<std::int32_t>(-32)), {"X"}},
      {"Width0", "inspect", key("llama.embedding_length", 4, u32(0)), {"X"}},
      {"HugeWidth", "inspect", key("llama.embedding_length", 10, u64(kHuge)), {"X"}},
      {"NoHeads", "inspect", key("llama.attention.head_count", 4, u32(0)), {"X"}},
      {"HeadsThatDoNotDivide", "inspect", key("llama.attention.head_count", 4, u32(3)), {"X"}},
      {"HeadsOfOneRow", "inspect", key("llama.attention.head_count", 4, u32(32)), {"X"}},
      {"KeyHeadsThatDoNotDivide", "inspect", key("llama.attention.head_count_kv", 4, u32(7)), {"X"}},
      {"HeadsPerLayerOfAnotherLength",
       "inspect",
       key("llama.attention.head_count", 9, Model::numbers<std::uint32_t>(4, {2, 2, 2})),
       {"X"}},
      {"NoBlocks", "inspect", key("llama.block_count", 4, u32(0)), {"X"}},
      {"MoreBlocksThanThere", "inspect", key("llama.block_count", 4, u32(2)), {"X"}},
      {"ABillionBlocks", "inspect", key("llama.block_count", 4, u32(1'000'000'000)), {"X"}},
      {"ABillionExperts",
       "inspect",
       [](Model& model) {
         model.set("llama.expert_count", 4, u32(1'000'000'000));
         model.set("llama.expert_used_count", 4, u32(2));
       },
       {"X"}},
      {"NoEpsilon", "inspect", without("llama.attention.layer_norm_rms_epsilon"), {"X"}},
      {"EpsilonIsNaN",
       "inspect",
       key("llama.attention.layer_norm_rms_epsilon", 6, le(std::numeric_limits<float>::quiet_NaN())),
       {"X"}},
      {"UnknownRotaryScaling", "inspect", key("llama.rope.scaling.type", 8, text("spiral")), {"X"}},
      {"HeadsOfTwoSizes",
       "inspect",
       [](Model& model) {
         model.set("llama.attention.key_length", 4, u32(16));
         model.set("llama.attention.value_length", 4, u32(8));
       },
       {"X"}},
      {"RotaryFactorsOfAnotherNumber", "inspect", shape("rope_freqs.weight", {5}), {"X"}},
      // the tensors
      {"NoEmbedding", "inspect", without_tensor("token_embd.weight"), {"X"}},
      {"EmbeddingOfAnotherWidth", "inspect", shape("token_embd.weight", {64, 288}), {"X"}},
      {"NoQueries", "inspect", without_tensor("blk.0.attn_q.weight"), {"X"}},
      {"NoNorm", "inspect", without_tensor("blk.0.ffn_norm.weight"), {"X"}},
      {"NormOfAnotherSize", "inspect", shape("output_norm.weight", {31}), {"X"}},
      {"QueriesOfAnotherShape", "inspect", shape("blk.0.attn_q.weight", {32, 48}), {"X"}},
      {"DownTurnedOver", "inspect", shape("blk.0.ffn_down.weight", {32, 64}), {"X"}},
      {"WeightsThatAreWholeNumbers",
       "inspect",
       [](Model& model) { model.tensor("blk.0.ffn_up.weight").type = 26; },
       {"X"}},
      // the tokenizer
      {"NoTokenizer", "tokenize", without("tokenizer.ggml.model"), {"X"}},
      {"AnotherTokenizer", "tokenize", key("tokenizer.ggml.model", 8, text("bert")), {"X"}},
      {"UnknownWayOfCutting",
       "tokenize",
       [](Model& model) {
         model.set("tokenizer.ggml.model", 8, text("gpt2"));
         model.set("tokenizer.ggml.pre", 8, text("qwen3.7"));
       },
       {"X"}},
      {"NoMerges", "tokenize", key("tokenizer.ggml.model", 8, text("gpt2")), {"X"}},
      {"AMergeOfOneToken",
       "tokenize",
       [](Model& model) {
         model.set("tokenizer.ggml.model", 8, text("gpt2"));
         model.set("tokenizer.ggml.merges", 9, Model::strings({"ab"}));
       },
       {"X"}},
      {"AMergeOfUnknownTokens",
       "tokenize",
       [](Model& model) {
         model.set("tokenizer.ggml.model", 8, text("gpt2"));
         model.set("tokenizer.ggml.merges", 9, Model::strings({"zz yy"}));
       },
       {"X"}},
      {"NoTokens", "tokenize", key("tokenizer.ggml.tokens", 9, Model::strings({})), {"X"}},
      {"TokensOfAnotherKind",
       "tokenize",
       key("tokenizer.ggml.tokens", 9, Model::numbers<std::uint32_t>(4, {1, 2})),
       {"X"}},
      {"FewerScoresThanTokens", "tokenize", key("tokenizer.ggml.scores", 9, Model::numbers<float>(6, {0.0f})), {"X"}},
      {"ScoresThatAreNaN",
       "tokenize",
       key("tokenizer.ggml.scores", 9,
           Model::numbers(6, std::vector<float>(Model::kVocabulary, std::numeric_limits<float>::quiet_NaN()))),
       {"X"}},
      {"KindsThatAreNone",
       "tokenize",
       key("tokenizer.ggml.token_type", 9, Model::numbers(5, std::vector<std::int32_t>(Model::kVocabulary, 9))),
       {"X"}},
      {"BosBehindTheVocabulary", "tokenize", key("tokenizer.ggml.bos_token_id", 4, u32(4'000'000)), {"X"}},
      {"NoModelToTheVocabulary", "inspect", [](Model& model) { model.tensors.clear(); }, {"X"}},
      {"TokensThatNoJsonHolds",
       "quantize",
       [](Model& model) {
         auto tokens = Model::tokens();
         tokens.back() = "\xFF\xFE";
         model.set("tokenizer.ggml.tokens", 9, Model::strings(tokens));
       },
       {"X"}},
  };
}

class HostileGguf : public testing::TestWithParam<Hostile> {};

TEST_P(HostileGguf, IsRefused) {
  const TempDir directory;
  const std::string path = directory / "model.gguf";
  Model model;
  GetParam().spoil(model);
  const std::string bytes = model.bytes();
  write_file(path, GetParam().spoil_bytes ? GetParam().spoil_bytes(bytes) : bytes);
  write_file(directory / "text.txt", "the world");
  std::vector<std::string> arguments{GetParam().command, path};
  if (arguments.front() == "tokenize") arguments.insert(arguments.end(), {"--text", directory / "text.txt"});
  if (arguments.front() == "quantize")
    arguments.insert(arguments.end(), {"--preset", "int4-block", "-o", directory / "out"});
  const ProgramRun run = nibble(arguments);
  EXPECT_EQ(run.exit_code, 3) << run.out;
  EXPECT_LT(run.err.size(), 1500u) << "messages are for people";
  for (const char* const word : GetParam().message) EXPECT_THAT(run.err, HasSubstr(word));
  EXPECT_FALSE(std::filesystem::exists(directory / "out"));
}

INSTANTIATE_TEST_SUITE_P(, HostileGguf, testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.name); });

// What they are made of is a model that every part of is right.
TEST(HostileGgufModel, RunsBeforeItIsSpoiled) {
  const TempDir directory;
  const std::string path = directory / "model.gguf";
  Model model;
  model.make_q8_0("blk.0.attn_q.weight");
  write_file(path, model.bytes());
  write_file(directory / "text.txt", "the world");
  EXPECT_EQ(nibble({"inspect", path}).exit_code, 0);
  EXPECT_EQ(nibble({"tokenize", path, "--text", directory / "text.txt"}).exit_code, 0);
  EXPECT_EQ(nibble({"quantize", path, "--preset", "int4-block", "-o", directory / "out"}).exit_code, 0);
}

}  // namespace
}  // namespace nibble::test

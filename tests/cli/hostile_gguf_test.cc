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
      {"EmptyFile", "inspect", none, {"expected at least 4 bytes, got 0", "Incomplete download?"}, only("")},
      {"AnotherMagic",
       "inspect",
       none,
       {"expected the file to begin with 'GGUF', got 'GGML'"},
       [](std::string b) { return replaced(b, 0, "GGML"); }},
      {"Version1",
       "inspect",
       none,
       {"version 1", "expected 2 or 3", "convert the model again"},
       [](std::string b) { return replaced(b, 4, u32(1)); }},
      {"Version9",
       "inspect",
       none,
       {"version 9; expected 2 or 3"},
       [](std::string b) { return replaced(b, 4, u32(9)); }},
      {"BigEndian",
       "inspect",
       none,
       {"big-endian", "gguf_convert_endian"},
       [](std::string b) { return replaced(b, 4, std::string("\0\0\0\3", 4)); }},
      {"CutInMetadata",
       "inspect",
       none,
       {"the file ends inside the value of 'llama.attention.head_count_kv'", "Incomplete download?"},
       [](const std::string& b) { return b.substr(0, 300); }},
      {"CutInTensors",
       "inspect",
       none,
       {"tensor 'blk.0.ffn_down.weight' ends at byte", "bytes of data", "Incomplete download?"},
       [](const std::string& b) { return b.substr(0, b.size() - 5000); }},
      {"ManyTensors",
       "inspect",
       none,
       {"the number of tensors is 4611686018427387904, the limit is 1000000"},
       [](std::string b) { return replaced(b, 8, u64(kHuge)); }},
      {"ManyKeys",
       "inspect",
       none,
       {"the number of keys is 4611686018427387904, the limit is 100000"},
       [](std::string b) { return replaced(b, 16, u64(kHuge)); }},
      {"OneTensorTooMany",
       "inspect",
       none,
       {"tensor name '': expected 1 to 1024 bytes"},
       [](std::string b) { return replaced(b, 8, u64(12)); }},
      {"LongKey",
       "inspect",
       none,
       {"the file ends inside key 1 of 1", "12 are left"},
       only(gguf_head(0, 1) + u64(kHuge) + "general.name")},
      {"KeyTwice",
       "inspect",
       none,
       {"the key 'a.b' is there twice"},
       only(gguf_head(0, 2) + pair("a.b", 4, u32(1)) + pair("a.b", 4, u32(2)) + std::string(64, '\0'))},
      {"UnknownValueType",
       "inspect",
       key("llama.x", 77, u32(1)),
       {"'llama.x' has type 77; expected 0 (UINT8) to 12 (FLOAT64)"}},
      {"BoolOf2", "inspect", key("llama.x", 7, "\x02"), {"a BOOL should be 0 or 1, but is 2"}},
      {"LongString",
       "inspect",
       key("llama.x", 8, u64(kHuge) + "abc"),
       {"the file ends inside the value of 'llama.x'", "4611686018427387904 bytes needed"}},
      {"ArrayOfUnknownType",
       "inspect",
       key("llama.x", 9, u32(55) + u64(1)),
       {"'llama.x' has type 55; expected 0 (UINT8)"}},
      {"LongArray",
       "inspect",
       key("llama.x", 9, u32(4) + u64(kHuge)),
       {"claims 4611686018427387904 elements of at least 4 bytes"}},
      {"LongArrayOfStrings",
       "inspect",
       key("llama.x", 9, u32(8) + u64(std::uint64_t{1} << 40)),
       {"claims 1099511627776 elements of at least 8 bytes"}},
      {"DeepArrays", "inspect", key("llama.x", 9, nested(40)), {"arrays in arrays more than 4 deep"}},
      {"Alignment0",
       "inspect",
       key("general.alignment", 4, u32(0)),
       {"general.alignment should be a power of two up to 1048576, but is 0"}},
      {"Alignment24",
       "inspect",
       key("general.alignment", 4, u32(24)),
       {"general.alignment should be a power of two up to 1048576, but is 24"}},
      {"HugeAlignment", "inspect", key("general.alignment", 4, u32(1u << 31)), {"but is 2147483648"}},
      {"AlignmentOfAnotherKind",
       "inspect",
       key("general.alignment", 8, text("32")),
       {"'general.alignment' should be a whole number from 0, but is STRING '32'"}},
      {"TensorTwice",
       "inspect",
       none,
       {"the tensor 'a' is there twice"},
       only(tensor_file(info_of("a", {8}, 0, 0) + info_of("a", {8}, 0, 32), 2))},
      {"TensorOf5Dimensions",
       "inspect",
       none,
       {"tensor 'a' has 5 dimensions; expected at most 4"},
       only(tensor_file(info_of("a", {1, 1, 1, 1, 8}, 0, 0), 1))},
      {"TensorThatOverflows",
       "inspect",
       none,
       {"tensor 'a'", "overflows 64 bits"},
       only(tensor_file(info_of("a", {kHuge, kHuge}, 0, 0), 1))},
      {"TensorOfUnknownType",
       "inspect",
       none,
       {"tensor 'a' has type 99, which is unknown", "newer than this program"},
       only(tensor_file(info_of("a", {32}, 99, 0), 1))},
      {"TensorOfWithdrawnType",
       "inspect",
       none,
       {"type 4, Q4_2, which its makers withdrew", "quantize the model again"},
       only(tensor_file(info_of("a", {32}, 4, 0), 1))},
      {"RowsOfHalfABlock",
       "inspect",
       none,
       {"rows of 48 weights cannot be Q8_0, which comes in blocks of 32"},
       only(tensor_file(info_of("a", {48}, 8, 0), 1))},
      {"TensorOutOfPlace",
       "inspect",
       none,
       {"tensor 'a' begins at byte 12 of the data; expected a multiple of the alignment 32"},
       only(tensor_file(info_of("a", {8}, 0, 12), 1))},
      {"TensorBehindTheEnd",
       "inspect",
       none,
       {"tensor 'a' ends at byte 1048608", "4096 bytes of data"},
       only(tensor_file(info_of("a", {8}, 0, 1u << 20), 1))},
      {"TensorOffsetThatOverflows",
       "inspect",
       none,
       {"tensor 'a'", "overflows 64 bits"},
       only(tensor_file(info_of("a", {8}, 0, ~std::uint64_t{31}), 1))},
      {"TensorsThatOverlap",
       "inspect",
       none,
       {"tensor 'b' begins at byte 64 of the data, inside 'a', which ends at 128"},
       only(tensor_file(info_of("a", {32}, 0, 0) + info_of("b", {32}, 0, 64), 2))},
      // splits
      {"FirstOfASplitByAnotherName",
       "inspect",
       key("split.count", 2, le<std::uint16_t>(2)),
       {"is the first of 2 files of a split", "-00001-of-00002.gguf", "give it back the name"}},
      {"SplitOfTooMany",
       "inspect",
       key("split.count", 4, u32(4'000'000'000u)),
       {"says it is one of 4000000000 files; the limit is 10000"}},
      {"ALaterPartOfASplit",
       "inspect",
       [](Model& model) {
         model.set("split.count", 2, le<std::uint16_t>(3));
         model.set("split.no", 2, le<std::uint16_t>(2));
       },
       {"is file 3 of a split; open the first one", "-00001-of-00003.gguf"}},
      // the architecture
      {"NoArchitecture",
       "inspect",
       without("general.architecture"),
       {"expected a key 'general.architecture' with a string, there is none"}},
      {"UnknownArchitecture",
       "inspect",
       key("general.architecture", 8, text("lama")),
       {"general.architecture is 'lama'; expected one of llama", "did you mean 'llama'?"}},
      {"ArchitectureOfAnotherKind",
       "inspect",
       key("general.architecture", 4, u32(1)),
       {"'general.architecture' should be a string, but is UINT32 1"}},
      {"NoWidth",
       "inspect",
       without("llama.embedding_length"),
       {"expected a key 'llama.embedding_length' with a whole number from 0, there is none"}},
      {"WidthOfAnotherKind",
       "inspect",
       key("llama.embedding_length", 8, text("32")),
       {"'llama.embedding_length' should be a whole number from 0, but is STRING '32'"}},
      {"NegativeWidth",
       "inspect",
       key("llama.embedding_length", 5, le<std::int32_t>(-32)),
       {"'llama.embedding_length' should be a whole number from 0, but is INT32 -32"}},
      {"Width0",
       "inspect",
       key("llama.embedding_length", 4, u32(0)),
       {"'hidden_size': expected an integer from 1 to 1048576, got 0"}},
      {"HugeWidth",
       "inspect",
       key("llama.embedding_length", 10, u64(kHuge)),
       {"'hidden_size': expected an integer from 1 to 1048576, got 4611686018427387904"}},
      {"NoHeads", "inspect", key("llama.attention.head_count", 4, u32(0)), {"32 elements cannot be 0 heads"}},
      {"HeadsThatDoNotDivide",
       "inspect",
       key("llama.attention.head_count", 4, u32(3)),
       {"32 elements cannot be 3 heads"}},
      {"HeadsOfOneRow",
       "inspect",
       key("llama.attention.head_count", 4, u32(32)),
       {"expected an even head_dim", "got 1"}},
      {"KeyHeadsThatDoNotDivide",
       "inspect",
       key("llama.attention.head_count_kv", 4, u32(7)),
       {"2 attention heads are not a multiple of num_key_value_heads 7"}},
      {"HeadsPerLayerOfAnotherLength",
       "inspect",
       key("llama.attention.head_count", 9, Model::numbers<std::uint32_t>(4, {2, 2, 2})),
       {"should have one number for each of 1 layers, but has 3"}},
      {"NoBlocks",
       "inspect",
       key("llama.block_count", 4, u32(0)),
       {"'num_hidden_layers': expected an integer from 1 to 4096, got 0"}},
      {"MoreBlocksThanThere",
       "inspect",
       key("llama.block_count", 4, u32(2)),
       {"missing tensor 'blk.1.", "did you mean 'blk.0."}},
      {"ABillionBlocks",
       "inspect",
       key("llama.block_count", 4, u32(1'000'000'000)),
       {"'num_hidden_layers': expected an integer from 1 to 4096, got 1000000000"}},
      {"ABillionExperts",
       "inspect",
       [](Model& model) {
         model.set("llama.expert_count", 4, u32(1'000'000'000));
         model.set("llama.expert_used_count", 4, u32(2));
       },
       {"'num_local_experts': expected an integer from 1 to 4096, got 1000000000"}},
      {"NoEpsilon",
       "inspect",
       without("llama.attention.layer_norm_rms_epsilon"),
       {"expected a key 'llama.attention.layer_norm_rms_epsilon' with a number, there is none"}},
      {"EpsilonIsNaN",
       "inspect",
       key("llama.attention.layer_norm_rms_epsilon", 6, le(std::numeric_limits<float>::quiet_NaN())),
       {"'llama.attention.layer_norm_rms_epsilon' is nan"}},
      {"UnknownRotaryScaling",
       "inspect",
       key("llama.rope.scaling.type", 8, text("spiral")),
       {"'llama.rope.scaling.type' is 'spiral'; expected none, linear, yarn or tensors of factors"}},
      {"HeadsOfTwoSizes",
       "inspect",
       [](Model& model) {
         model.set("llama.attention.key_length", 4, u32(16));
         model.set("llama.attention.value_length", 4, u32(8));
       },
       {"heads of keys (16) and of values (8) of different sizes are not computed"}},
      {"RotaryFactorsOfAnotherNumber",
       "inspect",
       shape("rope_freqs.weight", {5}),
       {"'rope_scaling': 'short_factor': expected a list of 8 numbers"}},
      // the tensors
      {"NoEmbedding", "inspect", without_tensor("token_embd.weight"), {"missing tensor 'token_embd.weight'"}},
      {"EmbeddingOfAnotherWidth",
       "inspect",
       shape("token_embd.weight", {64, 288}),
       {"tensor 'token_embd.weight'", "expected rows of 32, got shape (288, 64)"}},
      {"NoQueries",
       "inspect",
       without_tensor("blk.0.attn_q.weight"),
       {"missing tensor 'blk.0.attn_q.weight'", "did you mean 'blk.0.attn_k.weight'?"}},
      {"NoNorm",
       "inspect",
       without_tensor("blk.0.ffn_norm.weight"),
       {"missing tensor 'blk.0.ffn_norm.weight'", "did you mean 'blk.0.attn_norm.weight'?"}},
      {"NormOfAnotherSize",
       "inspect",
       shape("output_norm.weight", {31}),
       {"tensor 'output_norm.weight'", "expected 32 rows, got 31 in shape (31)"}},
      {"QueriesOfAnotherShape",
       "inspect",
       shape("blk.0.attn_q.weight", {32, 48}),
       {"tensor 'blk.0.attn_q.weight'", "expected 32 rows, got 48 in shape (48, 32)"}},
      {"DownTurnedOver",
       "inspect",
       shape("blk.0.ffn_down.weight", {32, 64}),
       {"tensor 'blk.0.ffn_down.weight'", "expected rows of 64, got shape (64, 32)"}},
      {"WeightsThatAreWholeNumbers",
       "inspect",
       [](Model& model) { model.tensor("blk.0.ffn_up.weight").type = 26; },
       {"tensor 'blk.0.ffn_up.weight'", "I32"}},
      // the tokenizer
      {"NoTokenizer",
       "tokenize",
       without("tokenizer.ggml.model"),
       {"expected a key 'tokenizer.ggml.model' with a string, there is none"}},
      {"AnotherTokenizer",
       "tokenize",
       key("tokenizer.ggml.model", 8, text("bert")),
       {"'tokenizer.ggml.model' is 'bert'; expected 'gpt2' (byte-level BPE) or 'llama' (SentencePiece BPE)"}},
      {"UnknownWayOfCutting",
       "tokenize",
       [](Model& model) {
         model.set("tokenizer.ggml.model", 8, text("gpt2"));
         model.set("tokenizer.ggml.pre", 8, text("qwen3.7"));
       },
       {"'tokenizer.ggml.pre' is 'qwen3.7'", "did you mean 'qwen2'?"}},
      {"NoMerges",
       "tokenize",
       key("tokenizer.ggml.model", 8, text("gpt2")),
       {"expected a key 'tokenizer.ggml.merges' with an array of STRING, there is none"}},
      {"AMergeOfOneToken",
       "tokenize",
       [](Model& model) {
         model.set("tokenizer.ggml.model", 8, text("gpt2"));
         model.set("tokenizer.ggml.merges", 9, Model::strings({"ab"}));
       },
       {"entry 0 of 'tokenizer.ggml.merges' should be two tokens with a space between, but is 'ab'"}},
      {"AMergeOfUnknownTokens",
       "tokenize",
       [](Model& model) {
         model.set("tokenizer.ggml.model", 8, text("gpt2"));
         model.set("tokenizer.ggml.merges", 9, Model::strings({"zz yy"}));
       },
       {"merge 0 of 'zz' and 'yy': 'zz' is not in the vocabulary"}},
      {"NoTokens",
       "tokenize",
       key("tokenizer.ggml.tokens", 9, Model::strings({})),
       {"'tokenizer.ggml.token_type' has 288 entries for 0 tokens"}},
      {"TokensOfAnotherKind",
       "tokenize",
       key("tokenizer.ggml.tokens", 9, Model::numbers<std::uint32_t>(4, {1, 2})),
       {"'tokenizer.ggml.tokens' should be an array of STRING, but is ARRAY [UINT32; 2]"}},
      {"FewerScoresThanTokens",
       "tokenize",
       key("tokenizer.ggml.scores", 9, Model::numbers<float>(6, {0.0f})),
       {"'tokenizer.ggml.scores' has 1 entries for 288 tokens"}},
      {"ScoresThatAreNaN",
       "tokenize",
       key("tokenizer.ggml.scores", 9,
           Model::numbers(6, std::vector<float>(Model::kVocabulary, std::numeric_limits<float>::quiet_NaN()))),
       {"the score of token 0 is not finite"}},
      {"KindsThatAreNone",
       "tokenize",
       key("tokenizer.ggml.token_type", 9, Model::numbers(5, std::vector<std::int32_t>(Model::kVocabulary, 9))),
       {"'tokenizer.ggml.token_type' is 9 for token 0; expected 0 to 6"}},
      {"BosBehindTheVocabulary",
       "tokenize",
       key("tokenizer.ggml.bos_token_id", 4, u32(4'000'000)),
       {"'tokenizer.ggml.bos_token_id' is 4000000, but there are 288 tokens"}},
      {"NoModelToTheVocabulary",
       "inspect",
       [](Model& model) { model.tensors.clear(); },
       {"missing tensor 'token_embd.weight'"}},
      {"TokensThatNoJsonHolds",
       "quantize",
       [](Model& model) {
         auto tokens = Model::tokens();
         tokens.back() = "\xFF\xFE";
         model.set("tokenizer.ggml.tokens", 9, Model::strings(tokens));
       },
       {"token 287 is not UTF-8, so no tokenizer.json can hold it"}},
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
                         [](const auto& test) { return std::string(test.param.name); });

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

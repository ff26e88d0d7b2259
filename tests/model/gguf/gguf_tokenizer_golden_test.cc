#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <sstream>

#include "core/text/json.h"
#include "model/gguf/gguf_file.h"
#include "model/gguf/gguf_tokenizer.h"
#include "tests/support/files.h"

namespace nibble::model {
namespace {

using test::read_file;
using test::shared_path;

/// ggml-vocab-NAME.gguf with texts and the ids that the model's own tokenizer gives them, from llama.cpp's tests.
class Vocabularies : public testing::TestWithParam<const char*> {};

TEST_P(Vocabularies, GiveTheIdsOfTheModelsOwnTokenizer) {
  const std::string base = std::string("data/vocab/ggml-vocab-") + GetParam() + ".gguf";
  NIBBLE_NEEDS_SHARED(base);
  const auto file = GgufFile::open(shared_path(base));
  const auto tokenizer = make_gguf_tokenizer(file->metadata());
  EXPECT_EQ(tokenizer->vocabulary_size(), file->metadata().array("tokenizer.ggml.tokens", GgufType::kString)->size);

  std::vector<std::string> texts;
  const std::string all = read_file(shared_path(base + ".inp"));
  constexpr std::string_view kBetween = "\n__ggml_vocab_test__\n";
  for (std::size_t begin = 0; begin <= all.size();) {
    const std::size_t end = std::min(all.find(kBetween, begin), all.size());
    texts.push_back(all.substr(begin, end - begin));
    begin = end + kBetween.size();
  }
  std::istringstream lines(read_file(shared_path(base + ".out")));
  std::size_t checked = 0;
  for (std::string line; std::getline(lines, line); ++checked) {
    ASSERT_LT(checked, texts.size());
    std::istringstream numbers(line);
    std::vector<TokenId> expected;
    for (TokenId id = 0; numbers >> id;) expected.push_back(id);
    EXPECT_EQ(tokenizer->encode(texts[checked]), expected) << "text " << checked << ": '" << texts[checked] << "'";
    EXPECT_EQ(tokenizer->decode(expected), texts[checked]);
  }
  EXPECT_EQ(checked, 46u);
}

INSTANTIATE_TEST_SUITE_P(Golden, Vocabularies,
                         testing::Values("gpt-2", "falcon", "starcoder", "deepseek-coder", "llama-spm", "phi-3"));

class Exports : public testing::TestWithParam<const char*> {};

// The tokenizer that a converter wrote into a GGUF file is that of the checkpoint.
TEST_P(Exports, HaveTheTokenizerOfTheirCheckpoint) {
  const std::string base = std::string("golden/exports/") + GetParam() + ".gguf";
  NIBBLE_NEEDS_SHARED(base);
  const bool gpt2 = std::string_view(GetParam()).starts_with("gpt2");
  const auto own = Tokenizer::open(shared_path(gpt2 ? "models/gpt2-novels" : "models/llama-novels"));
  const auto tokenizer = make_gguf_tokenizer(GgufFile::open(shared_path(base))->metadata());
  const std::string text = read_file(shared_path("data/novels/Doyle_Lost_1912.txt"));
  EXPECT_EQ(tokenizer->encode(text), own->encode(text));
  EXPECT_EQ(tokenizer->eos(), own->eos());
  EXPECT_EQ(tokenizer->added_bos(), own->added_bos());
}

INSTANTIATE_TEST_SUITE_P(Golden, Exports, testing::Values("gpt2-Q3_K_M", "llama-Q4_K_M"));

/// A model's tokenizer.json, as a converter would write it into metadata, with the name it gives the way of cutting.
struct Family {
  const char* directory;
  const char* pre;
};
void PrintTo(const Family& family, std::ostream* stream) { *stream << family.directory; }

GgufMetadata converted(const nlohmann::json& tokenizer, const char* pre) {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  const auto set = [&](const std::string& token, std::size_t id, std::int32_t type) {
    tokens.resize(std::max(tokens.size(), id + 1));
    types.resize(tokens.size(), 1);
    tokens[id] = token;
    types[id] = type;
  };
  for (const auto& [token, id] : tokenizer["model"]["vocab"].items()) set(token, id.get<std::size_t>(), 1);
  for (const auto& token : tokenizer["added_tokens"])
    set(token["content"].get<std::string>(), token["id"].get<std::size_t>(), token["special"].get<bool>() ? 3 : 4);
  std::vector<std::string> merges;
  for (const auto& merge : tokenizer["model"]["merges"])
    merges.push_back(merge.is_string() ? merge.get<std::string>()
                                       : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  GgufMetadata metadata;
  metadata.add("tokenizer.ggml.model", GgufValue(std::string("gpt2")));
  metadata.add("tokenizer.ggml.pre", GgufValue(std::string(pre)));
  metadata.add("tokenizer.ggml.tokens", GgufValue::strings(tokens));
  metadata.add("tokenizer.ggml.token_type", GgufValue::integers(types));
  metadata.add("tokenizer.ggml.merges", GgufValue::strings(merges));
  return metadata;
}

// Falcon's file there cuts by the text "[0-9][0-9][0-9]", not by the pattern; the vocabulary above has the real one.
class Families : public testing::TestWithParam<Family> {};

TEST_P(Families, AreCutAsTheirOwnTokenizerDoes) {
  const std::string directory = std::string("golden/tokenizers/") + GetParam().directory;
  NIBBLE_NEEDS_SHARED(directory + "/tokenizer.json");
  const auto own = nlohmann::json::parse(read_file(shared_path(directory + "/tokenizer.json")));
  const auto tokenizer = make_gguf_tokenizer(converted(own, GetParam().pre));
  std::size_t checked = 0;
  for (const auto& expected : nlohmann::json::parse(read_file(shared_path(directory + "/expected.json")))) {
    const auto text = expected["text"].get<std::string>();
    EXPECT_EQ(tokenizer->encode(text), expected["ids_without_special"].get<std::vector<TokenId>>()) << text;
    ++checked;
  }
  EXPECT_GE(checked, 40u);
}

INSTANTIATE_TEST_SUITE_P(Golden, Families,
                         testing::Values(Family{"gpt2", "gpt-2"}, Family{"llama3", "llama-bpe"},
                                         Family{"deepseek-coder", "deepseek-coder"},
                                         Family{"deepseek-v3", "deepseek-v3"}, Family{"gpt-oss", "gpt-4o"},
                                         Family{"starcoder", "starcoder"}, Family{"qwen2", "qwen2"},
                                         Family{"cohere", "command-r"}, Family{"bloom", "bloom"}));

}  // namespace
}  // namespace nibble::model

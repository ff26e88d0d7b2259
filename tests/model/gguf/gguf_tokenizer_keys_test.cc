#include "model/gguf/gguf_tokenizer_keys.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "model/gguf/gguf_tokenizer.h"
#include "model/tokenizer/open_tokenizer.h"
#include "model/tokenizer/pipeline.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using test::shared_path;
using test::throws_with;

GgufMetadata metadata_of(const std::filesystem::path& directory, std::size_t more = 0) {
  const TokenizerSpec spec = read_tokenizer(directory);
  GgufMetadata metadata;
  add_gguf_tokenizer(metadata, spec,
                     {.vocabulary = spec.tokens.size() + more, .bos = {}, .eos = {}, .chat_templates = {}});
  return metadata;
}

struct Golden {
  const char* name;
  const char* pre;      ///< tokenizer.ggml.pre; of SentencePiece kinds "default"
  const char* refusal;  ///< what is refused instead; "differently": only the check of ids finds it
};

class GgufTokenizerKeys : public testing::TestWithParam<Golden> {};
INSTANTIATE_TEST_SUITE_P(
    All, GgufTokenizerKeys,
    testing::Values(Golden{"bloom", "", "its way of cutting"}, Golden{"cohere", "command-r", ""},
                    Golden{"deepseek-coder", "deepseek-coder", ""}, Golden{"deepseek-v3", "deepseek-v3", ""},
                    Golden{"falcon", "", "its way of cutting"}, Golden{"gemma", "default", "differently"},
                    Golden{"gpt-neox", "gpt-2", ""}, Golden{"gpt-oss", "gpt-4o", ""}, Golden{"gpt2", "gpt-2", ""},
                    Golden{"gpt2-prefix-space", "", "a space before texts"}, Golden{"llama2", "default", ""},
                    Golden{"llama3", "llama-bpe", ""}, Golden{"metaspace-always", "default", ""},
                    Golden{"mistral-metaspace", "default", ""}, Golden{"opt", "gpt-2", ""},
                    Golden{"phi2-added", "gpt-2", ""}, Golden{"phi3", "default", ""}, Golden{"qwen2", "qwen2", ""},
                    Golden{"starcoder", "starcoder", ""}, Golden{"unigram", "", "a Unigram vocabulary"}),
    [](const auto& instance) {
      std::string name = instance.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST_P(GgufTokenizerKeys, DescribeTheSameTokenizer) {
  const Golden golden = GetParam();
  const std::string folder = std::string("golden/tokenizers/") + golden.name;
  NIBBLE_NEEDS_SHARED(folder + "/tokenizer.json");
  const std::filesystem::path directory = shared_path(folder);
  if (golden.refusal == std::string_view("differently")) {  // a token of two characters that no merge makes
    EXPECT_TRUE(throws_with<InvalidArgument>(
        [&] { check_gguf_tokenizer(metadata_of(directory), *Tokenizer::open(directory)); }, golden.refusal));
    return;
  }
  if (*golden.refusal != 0) {
    EXPECT_TRUE(throws_with<InvalidArgument>([&] { metadata_of(directory); }, "GGUF has no word for", golden.refusal));
    return;
  }
  const GgufMetadata metadata = metadata_of(directory);
  EXPECT_EQ(*metadata.text("tokenizer.ggml.pre"), golden.pre);
  const auto own = Tokenizer::open(directory), written = make_gguf_tokenizer(metadata);
  EXPECT_NO_THROW(check_gguf_tokenizer(metadata, *own));
  EXPECT_EQ(written->vocabulary_size(), own->vocabulary_size());
  // What may differ: texts that are not in NFC; after control tokens that take spaces along; a space put before texts
  // that begin with one (llama.cpp does, Metaspace does not) and, where only the first text gets one, behind tokens.
  const bool sentencepiece = golden.pre == std::string_view("default");
  std::size_t equal = 0, texts = 0;
  for (const auto& entry : nlohmann::json::parse(test::read_file(directory / "expected.json"))) {
    const std::string text = entry["text"];
    if (sentencepiece && (text.starts_with(" ") || text.starts_with("\u2581") || text.find('<') != std::string::npos))
      continue;
    ++texts;
    equal += static_cast<std::size_t>(written->encode(text) == own->encode(text));
  }
  EXPECT_GE(texts, 20u);
  EXPECT_GE(static_cast<double>(equal), 0.95 * static_cast<double>(texts)) << equal << " of " << texts;
}

TEST(GgufTokenizerKeysOf, ABrokenPromiseIsFound) {
  NIBBLE_NEEDS_SHARED("golden/tokenizers/gpt2/tokenizer.json");
  const GgufMetadata metadata = metadata_of(shared_path("golden/tokenizers/gpt2"));
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [&] { check_gguf_tokenizer(metadata, *Tokenizer::open(shared_path("golden/tokenizers/llama3"))); },
      "cuts texts differently", "expected token"));
}

TEST(GgufTokenizerKeysOf, FillsUpToTheVocabulary) {
  NIBBLE_NEEDS_SHARED("golden/tokenizers/gpt2/tokenizer.json");
  const std::filesystem::path directory = shared_path("golden/tokenizers/gpt2");
  const TokenizerSpec spec = read_tokenizer(directory);
  const std::size_t count = spec.tokens.size();
  const GgufMetadata metadata = metadata_of(directory, 2);
  const GgufArray& tokens = *metadata.array("tokenizer.ggml.tokens", GgufType::kString);
  EXPECT_EQ(tokens.size, count + 2);
  EXPECT_EQ(tokens.text(count + 1), "[PAD" + std::to_string(count + 1) + "]");
  EXPECT_EQ(metadata.array_of_integers("tokenizer.ggml.token_type")->integer(count), 5);
  GgufMetadata small;
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [&] { add_gguf_tokenizer(small, spec, {.vocabulary = count - 1, .bos = {}, .eos = {}, .chat_templates = {}}); },
      "tokens for a model with a vocabulary of"));
}

TokenizerSpec named(std::vector<std::string> tokens, bool strips) {
  TokenizerSpec spec;
  spec.tokens = std::move(tokens);
  spec.added.push_back({.id = 0, .content = spec.tokens[0], .special = true, .right_strip = strips});
  return spec;
}

// llama.cpp aborts where the name says phi-3 and the tokens of that model are not there.
TEST(GgufModelName, SaysPhi3WhereItsTokensAre) {
  const std::vector<std::string> all{"<unk>", "<s>", "</s>", "<|endoftext|>"};
  EXPECT_EQ(gguf_model_name("my-Phi-3-mini", named(all, true)), "my-Phi-3-mini");
  EXPECT_EQ(gguf_model_name("mine", named(all, true)), "mine (phi-3)");
  EXPECT_EQ(gguf_model_name("mine", named(all, false)), "mine");
  EXPECT_EQ(gguf_model_name("my-Phi-3-and-phi3", named({"<unk>"}, true)), "my-phi_3-and-phi_3");
}

}  // namespace
}  // namespace nibble::model

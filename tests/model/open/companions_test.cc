#include "model/open/companions.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/text/json.h"
#include "model/open/open_model.h"
#include "tests/model/gguf/tiny_llama.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using test::read_file;
using test::shared_path;
using test::source_path;
using test::TempDir;
using test::throws_with;
using test::TinyLlama;
using test::write_file;

TEST(Companions, OfAGgufFileAreItsTokenizerAndChatTemplate) {
  const TempDir dir;
  TinyLlama model;
  model.set("tokenizer.chat_template", 8, test::text("{{ messages }}"));
  write_file(dir / "model.gguf", model.bytes());
  std::filesystem::create_directory(dir / "out");
  add_companions(dir / "model.gguf", dir / "out");
  EXPECT_EQ(read_file(dir / "out/chat_template.jinja"), "{{ messages }}");
  const auto config = nlohmann::json::parse(read_file(dir / "out/tokenizer_config.json"));
  EXPECT_EQ(config["bos_token"], "<s>");
  EXPECT_EQ(config["eos_token"], "</s>");
  const auto own = open_tokenizer(dir / "model.gguf"), written = open_tokenizer(dir / "out");
  EXPECT_EQ(written->eos(), own->eos());
  EXPECT_EQ(written->added_bos(), own->added_bos());
  EXPECT_EQ(own->added_bos(), std::optional<TokenId>(1));
}

TEST(Companions, OfADirectoryAreCopied) {
  const TempDir dir;
  add_companions(source_path("datasets/demo/gpt2-demo"), dir.path());
  EXPECT_EQ(read_file(dir / "tokenizer.json"), read_file(source_path("datasets/demo/gpt2-demo/tokenizer.json")));
}

TEST(Companions, OfAGgufFileWithoutATokenizerAreNone) {
  const TempDir dir;
  TinyLlama model;
  model.remove_key("tokenizer.ggml.model");
  write_file(dir / "model.gguf", model.bytes());
  std::filesystem::create_directory(dir / "out");
  add_companions(dir / "model.gguf", dir / "out");
  EXPECT_TRUE(std::filesystem::is_empty(dir / "out"));
}

TEST(Companions, ThatNoJsonHoldsAreRefused) {
  const TempDir dir;
  TinyLlama model;
  auto tokens = TinyLlama::tokens();
  tokens.back() = "\xFF\xFE";
  model.set("tokenizer.ggml.tokens", 9, TinyLlama::strings(tokens));
  write_file(dir / "model.gguf", model.bytes());
  EXPECT_TRUE(throws_with<FormatError>([&] { add_companions(dir / "model.gguf", dir.path()); }, "token 287", "UTF-8"));
}

/// Vocabularies that others made: what is written gives the same ids and texts as the file does.
class WrittenTokenizers : public testing::TestWithParam<const char*> {};

TEST_P(WrittenTokenizers, GiveTheIdsOfTheFile) {
  const bool shared = std::string_view(GetParam()).starts_with("data/");
  if (shared) NIBBLE_NEEDS_SHARED(GetParam());
  const auto file = shared ? shared_path(GetParam()) : source_path(GetParam());
  const TempDir dir;
  add_companions(file, dir.path());
  const auto own = open_tokenizer(file), written = open_tokenizer(dir.path());
  ASSERT_EQ(written->vocabulary_size(), own->vocabulary_size());
  std::vector<std::string> texts{read_file(source_path("datasets/demo/eval.txt")).substr(0, 60'000), "", " ", "\n\n  x",
                                 "a<|end|>b <s> </s>  c"};
  if (shared) texts.push_back(read_file(shared_path(std::string(GetParam()) + ".inp")));
  for (const std::string& text : texts) {
    const std::vector<TokenId> ids = own->encode(text);
    EXPECT_EQ(written->encode(text), ids) << text.substr(0, 60);
    EXPECT_EQ(written->decode(ids), own->decode(ids));
  }
  EXPECT_EQ(written->eos(), own->eos());
  EXPECT_EQ(written->added_bos(), own->added_bos());
}

INSTANTIATE_TEST_SUITE_P(, WrittenTokenizers,
                         testing::Values("tests/data/gguf/gemma2.gguf", "tests/data/gguf/phi3.gguf",
                                         "tests/data/gguf/mixtral.gguf", "tests/data/gguf/gptneox.gguf",
                                         "tests/data/gguf/qwen3.gguf", "data/vocab/ggml-vocab-gpt-2.gguf",
                                         "data/vocab/ggml-vocab-falcon.gguf", "data/vocab/ggml-vocab-starcoder.gguf",
                                         "data/vocab/ggml-vocab-deepseek-coder.gguf",
                                         "data/vocab/ggml-vocab-llama-spm.gguf", "data/vocab/ggml-vocab-phi-3.gguf"));

}  // namespace
}  // namespace nibble::model

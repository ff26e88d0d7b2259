#include "model/open/open_model.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/model/gguf/tiny_llama.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using test::source_path;
using test::TempDir;
using test::throws_with;
using test::TinyLlama;
using test::write_file;

TEST(OpenModel, TellsTheKindsApartByTheirName) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "folder.gguf");
  EXPECT_TRUE(is_gguf_path(dir / "model.gguf"));
  EXPECT_FALSE(is_gguf_path(dir / "folder.gguf"));
  EXPECT_FALSE(is_gguf_path(dir / "model"));
}

TEST(OpenModel, OpensAFileAndADirectory) {
  const TempDir dir;
  write_file(dir / "model.gguf", TinyLlama().bytes());
  const auto file = open_checkpoint(dir / "model.gguf");
  EXPECT_EQ(file->directory(), dir / "model.gguf");
  EXPECT_EQ(file->architecture().family, "llama");
  EXPECT_EQ(open_checkpoint(source_path("datasets/demo/gpt2-demo"))->architecture().family, "gpt2");
  EXPECT_EQ(open_tokenizer(dir / "model.gguf")->vocabulary_size(), TinyLlama::kVocabulary);
  EXPECT_NE(open_tokenizer_if_any(dir / "model.gguf"), nullptr);
  EXPECT_NE(open_tokenizer_if_any(source_path("datasets/demo/gpt2-demo")), nullptr);
}

TEST(OpenModel, KnowsModelsWithoutATokenizer) {
  const TempDir dir;
  TinyLlama model;
  model.set("tokenizer.ggml.model", 8, test::text("none"));
  write_file(dir / "none.gguf", model.bytes());
  model.remove_key("tokenizer.ggml.model");
  write_file(dir / "absent.gguf", model.bytes());
  for (const char* const name : {"none.gguf", "absent.gguf"}) {
    EXPECT_EQ(open_tokenizer_if_any(dir / name), nullptr);
    EXPECT_TRUE(throws_with<FormatError>([&] { open_tokenizer(dir / name); }, "tokenizer.ggml.model", name));
  }
  std::filesystem::create_directory(dir / "empty");
  EXPECT_EQ(open_tokenizer_if_any(dir / "empty"), nullptr);
}

TEST(OpenModel, KnowsEveryKindOfTokenizerFile) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "pieces");
  std::filesystem::copy_file(source_path("tests/data/tokenizers/spm_bpe.model"), dir / "pieces/tokenizer.model");
  EXPECT_NE(open_tokenizer_if_any(dir / "pieces"), nullptr);
  write_file(dir / "pieces/vocab.json", "{}");  // without merges it is no tokenizer
  EXPECT_NE(open_tokenizer_if_any(dir / "pieces"), nullptr);
  std::filesystem::create_directory(dir / "half");
  write_file(dir / "half/vocab.json", "{}");
  EXPECT_EQ(open_tokenizer_if_any(dir / "half"), nullptr);
}

TEST(OpenModel, OpensAVocabularyWithoutAModel) {
  const TempDir dir;
  TinyLlama model;
  model.tensors.clear();
  write_file(dir / "vocab.gguf", model.bytes());
  EXPECT_EQ(open_tokenizer(dir / "vocab.gguf")->decode(open_tokenizer(dir / "vocab.gguf")->encode("the world")),
            "the world");
  EXPECT_TRUE(throws_with<FormatError>([&] { open_checkpoint(dir / "vocab.gguf"); }, "token_embd.weight"));
}

TEST(OpenModel, SaysWhatItExpected) {
  const TempDir dir;
  EXPECT_TRUE(throws_with<FormatError>([&] { open_checkpoint(dir / "absent.gguf"); }, "absent.gguf"));
  write_file(dir / "model.bin", "GGUF");
  EXPECT_TRUE(throws_with<FormatError>([&] { open_checkpoint(dir / "model.bin"); }, "expected a directory",
                                       "or a file NAME.gguf", "got a file"));
  std::filesystem::create_directory(dir / "download");
  write_file(dir / "download/model.gguf", TinyLlama().bytes());
  EXPECT_TRUE(throws_with<FormatError>([&] { open_checkpoint(dir / "download"); }, "model.gguf", "its own path"));
}

}  // namespace
}  // namespace nibble::model

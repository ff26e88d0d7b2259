#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <string>

#include "core/text/json.h"
#include "model/tokenizer/tokenizer.h"
#include "tests/support/files.h"

// MB/s of Tokenizer::encode() and decode() on one thread: English text, word cache warm (the text was encoded before).

namespace nibble::model {
namespace {

std::string english_text() {
  const auto novel = test::shared_path("data/novels/Doyle_Lost_1912.txt");
  return test::read_file(std::filesystem::exists(novel) ? novel : test::source_path("datasets/demo/eval.txt"));
}

void set_speed(benchmark::State& state, const std::string& text) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(text.size()));
}

void encode(benchmark::State& state, const std::filesystem::path& directory) {
  const auto tokenizer = Tokenizer::open(directory);
  const std::string text = english_text();
  benchmark::DoNotOptimize(tokenizer->encode(text));
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer->encode(text));
  set_speed(state, text);
}

/// The demo tokenizer, cutting words by Llama 3's pattern: through PCRE2, as all patterns but GPT-2's.
void encode_by_llama3_pattern(benchmark::State& state) {
  const auto demo = test::source_path("datasets/demo/gpt2-demo/tokenizer.json");
  auto file = nlohmann::json::parse(test::read_file(demo));
  file["pre_tokenizer"] = nlohmann::json::parse(R"json({"type": "Sequence", "pretokenizers": [
      {"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex":
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
      {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})json");
  const test::TempDir directory;
  test::write_file(directory / "tokenizer.json", file.dump());
  encode(state, directory.path());
}

/// One of the SentencePiece models of tests/data.
void encode_by_model(benchmark::State& state, const char* model) {
  const test::TempDir directory;
  const auto file = test::source_path("tests/data/tokenizers") / fmt::format("{}.model", model);
  test::write_file(directory / "tokenizer.model", test::read_file(file));
  encode(state, directory.path());
}

void decode(benchmark::State& state, const std::filesystem::path& directory) {
  const auto tokenizer = Tokenizer::open(directory);
  const std::string text = english_text();
  const auto ids = tokenizer->encode(text);
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer->decode(ids));
  set_speed(state, text);
}

/// Every word is new: what the merges themselves cost.
void encode_one_long_word(benchmark::State& state, const std::filesystem::path& directory) {
  const auto tokenizer = Tokenizer::open(directory);
  std::string text = english_text();
  std::erase_if(text, [](char c) { return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z'); });
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer->encode(text));
  set_speed(state, text);
}

void open(benchmark::State& state, const std::filesystem::path& directory) {
  for (auto _ : state) benchmark::DoNotOptimize(Tokenizer::open(directory));
}

}  // namespace
}  // namespace nibble::model

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  for (const auto& directory :
       {nibble::test::source_path("datasets/demo/gpt2-demo"), nibble::test::shared_path("models/gpt2-tokenizer"),
        nibble::test::shared_path("models/stories260k")}) {
    if (!std::filesystem::exists(directory)) continue;
    const std::string model = directory.filename().string();
    const auto name = [&](const char* what) { return fmt::format("{}/{}", what, model); };
    using namespace nibble::model;
    benchmark::RegisterBenchmark(name("encode").c_str(), encode, directory);
    benchmark::RegisterBenchmark(name("decode").c_str(), decode, directory);
    benchmark::RegisterBenchmark(name("encode_one_long_word").c_str(), encode_one_long_word, directory);
    benchmark::RegisterBenchmark(name("open").c_str(), nibble::model::open, directory);
  }
  const auto families = nibble::test::shared_path("golden/tokenizers");
  if (std::filesystem::exists(families)) {
    for (const auto& entry : std::filesystem::directory_iterator(families)) {
      if (!entry.is_directory()) continue;
      const std::string name = "encode_family/" + entry.path().filename().string();
      benchmark::RegisterBenchmark(name.c_str(), nibble::model::encode, entry.path());
    }
  }
  for (const char* model : {"spm_bpe", "spm_unigram"}) {
    benchmark::RegisterBenchmark(fmt::format("encode/{}", model).c_str(), nibble::model::encode_by_model, model);
  }
  benchmark::RegisterBenchmark("encode_by_llama3_pattern", nibble::model::encode_by_llama3_pattern);
  benchmark::RunSpecifiedBenchmarks();
}

#include <gmock/gmock.h>

#include <map>
#include <span>
#include <sstream>
#include <string>

#include "model/checkpoint/checkpoint.h"
#include "tests/cli/nibble.h"
#include "tests/model/gguf/sha256.h"
#include "tests/support/compare.h"
#include "tests/support/sanitizers.h"

// Files that llama.cpp's own quantizer made, and vocabularies that its tests come with, through the commands.

namespace nibble::test {
namespace {

using nlohmann::json;

class LlamaCppFiles : public testing::TestWithParam<const char*> {
 protected:
  std::string base = std::string("golden/exports/") + GetParam();
  std::string file = shared_path(base + ".gguf"), tokens = shared_path("golden/tokens/Doyle_Lost_1912.u16");
  std::string own = shared_path(base.find("gpt2") != std::string::npos ? "models/gpt2-novels" : "models/llama-novels");
  json golden() const { return json::parse(read_file(shared_path(base + ".golden.json"))); }
  std::vector<std::string> perplexity(const std::string& of) const {
    return {"perplexity", of, "--tokens", tokens, "--max-tokens", "1024", "--protocol", "blocks", "--context", "256"};
  }
};

TEST_P(LlamaCppFiles, HaveTheirPerplexity) {
  NIBBLE_NEEDS_SHARED(base + ".gguf");
  // transformers in float32; two orders of summation, averaged over 1020 tokens.
  EXPECT_TRUE(near(nibble_json(perplexity(file))["perplexity"], golden()["blocks_256x4"]["transformers_float32"],
                   {.rel = 2e-6}));
}

TEST_P(LlamaCppFiles, AreJudgedByTheFloatModel) {
  NIBBLE_NEEDS_SHARED(base + ".gguf");
  auto arguments = perplexity(file);
  arguments.insert(arguments.end(), {"--reference", own});
  const auto result = nibble_json(arguments);
  EXPECT_GT(result["reference"]["kl_nats_per_token"].get<double>(), 1e-4);
  EXPECT_LT(result["reference"]["kl_nats_per_token"].get<double>(), 0.1);
}

TEST_P(LlamaCppFiles, ContinueThePromptGreedily) {
  NIBBLE_NEEDS_SHARED(base + ".gguf");
  const json greedy = golden()["greedy"];
  std::string prompt;
  for (const auto& id : greedy["prompt"]) prompt += std::to_string(id.get<unsigned>()) + " ";
  EXPECT_EQ(nibble_json({"generate", file, "--prompt-ids", prompt, "-n", "24"})["ids"], greedy["transformers"]);
}

TEST_P(LlamaCppFiles, AreShownTypeByType) {
  NIBBLE_NEEDS_SHARED(base + ".gguf");
  const auto shown = nibble_json({"inspect", file});
  std::map<std::string, std::size_t> types;
  double bits = 0.0, weights = 0.0;
  for (const auto& tensor : shown["tensors"]) {
    ++types[tensor["storage"]];
    if (!tensor["block_linear"].get<bool>()) continue;
    bits += 8.0 * tensor["bytes"].get<double>();
    weights += tensor["weights"].get<double>();
  }
  EXPECT_TRUE(near(shown["bits_per_weight"], bits / weights, {.rel = 1e-12}));
  EXPECT_LT(shown["bits_per_weight"].get<double>(), 7.0);
  EXPECT_EQ(shown["tensors"].size(), golden()["weights"].size());
  EXPECT_GE(types.size(), 3u) << "384 is no multiple of 256: rows fall back";
}

TEST_P(LlamaCppFiles, ComeBackAsADirectoryOfTheSameBits) {
  NIBBLE_NEEDS_SHARED(base + ".gguf");
  const TempDir dir;
  const std::string directory = dir / "hf";
  ASSERT_EQ(nibble({"export", file, "--format", "dequantized", "--dtype", "float32", "-o", directory}).exit_code, 0);
  const auto checkpoint = model::Checkpoint::open(directory);
  const json weights = golden()["weights"];
  std::size_t checked = 0;
  for (const auto& [name, expected] : weights.items()) {
    if (name == "lm_head.weight" && checkpoint->architecture().head.tied) continue;
    SCOPED_TRACE(name);
    const auto tensor = checkpoint->tensor(name);
    EXPECT_EQ(tensor.shape, expected["shape"].get<std::vector<std::uint64_t>>());
    EXPECT_EQ(sha256({reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()}),
              expected["sha256_float32"]);
    ++checked;
  }
  EXPECT_EQ(checked, checkpoint->tensor_names().size());
  // The same weights, but a directory stores GPT-2's as (in, out): on some tiers its products sum in another order.
  EXPECT_TRUE(near(nibble_json(perplexity(directory))["perplexity"], nibble_json(perplexity(file))["perplexity"],
                   {.rel = base.find("gpt2") != std::string::npos ? 2e-6 : 0.0}));
  const std::string text = shared_path("data/novels/Doyle_Lost_1912.txt");
  EXPECT_EQ(nibble_json({"tokenize", directory, "--text", text, "--ids"})["ids"],
            nibble_json({"tokenize", own, "--text", text, "--ids"})["ids"]);
}

TEST_P(LlamaCppFiles, AreQuantizedOn) {
  NIBBLE_NEEDS_SHARED(base + ".gguf");
  const TempDir dir;
  ASSERT_EQ(nibble({"quantize", file, "--preset", "int4-block", "-o", dir / "q"}).exit_code, 0);
  const double before = nibble_json(perplexity(file))["perplexity"];
  EXPECT_LT(nibble_json(perplexity(dir / "q"))["perplexity"].get<double>(), 1.3 * before);
}

// Under ASan one file: model/gguf reads the blocks of all there.
constexpr const char* kFiles[] = {"llama-IQ4_XS", "llama-Q4_K_M", "gpt2-Q3_K_M"};
INSTANTIATE_TEST_SUITE_P(, LlamaCppFiles, testing::ValuesIn(std::span(kFiles).first(kAddressSanitizer ? 1 : 3)),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// ggml-vocab-NAME.gguf with texts and the ids that the model's own tokenizer gives them. model/gguf's own test has all
/// of them; a few show that the command gives the same.
class Vocabularies : public testing::TestWithParam<const char*> {};

TEST_P(Vocabularies, GiveTheIdsOfTheModelsOwnTokenizer) {
  const std::string base = std::string("data/vocab/ggml-vocab-") + GetParam() + ".gguf";
  NIBBLE_NEEDS_SHARED(base);
  const TempDir dir;
  const std::string all = read_file(shared_path(base + ".inp"));
  constexpr std::string_view kBetween = "\n__ggml_vocab_test__\n";
  std::istringstream lines(read_file(shared_path(base + ".out")));
  std::string line;
  constexpr std::size_t kEvery = 9;
  std::size_t checked = 0, given = 0;
  for (std::size_t begin = 0; begin <= all.size() && std::getline(lines, line); ++checked) {
    const std::size_t end = std::min(all.find(kBetween, begin), all.size());
    const std::string text = all.substr(begin, end - begin);
    begin = end + kBetween.size();
    std::istringstream numbers(line);
    std::vector<unsigned> expected;
    for (unsigned id = 0; numbers >> id;) expected.push_back(id);
    if (text.empty()) {  // which the command refuses; model/gguf's own test has it
      EXPECT_TRUE(expected.empty());
      continue;
    }
    if (checked % kEvery != 1) continue;
    ++given;
    write_file(dir / "text.txt", text);
    const auto result = nibble_json({"tokenize", shared_path(base), "--text", dir / "text.txt", "--ids"});
    EXPECT_EQ(result["ids"].get<std::vector<unsigned>>(), expected) << "text " << checked;
  }
  EXPECT_EQ(checked, 46u);
  EXPECT_GE(given, 4u);
}

INSTANTIATE_TEST_SUITE_P(Golden, Vocabularies,
                         testing::Values("gpt-2", "falcon", "starcoder", "deepseek-coder", "llama-spm", "phi-3"));

}  // namespace
}  // namespace nibble::test

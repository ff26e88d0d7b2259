#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/cli/nibble.h"
#include "tests/model/gguf/tiny_llama.h"
#include "tests/support/compare.h"

// A .gguf file where every command takes a checkpoint.

namespace nibble::test {
namespace {

using testing::HasSubstr;

constexpr const char* kText =
    "the world or the old world: a tower, a tree, the letter; the world to the water and the ordered world. ";

class GgufCommands : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* const name : {"blk.0.attn_q.weight", "blk.0.attn_v.weight", "blk.0.ffn_gate.weight",
                                   "blk.0.ffn_up.weight", "blk.0.ffn_down.weight", "token_embd.weight"})
      model.make_q8_0(name);
    write_file(file, model.bytes());
    std::string all;
    for (int i = 0; i < 12; ++i) all += kText;
    write_file(text, all);
  }
  nlohmann::json perplexity(const std::string& of, std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments{"perplexity", of, "--text", text, "--context", "32"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return nibble_json(arguments);
  }
  TempDir dir;
  TinyLlama model;
  std::string file = dir / "tiny-Q8_0.gguf", text = dir / "text.txt";
};

TEST_F(GgufCommands, InspectShowsTypesAndBits) {
  const auto shown = nibble_json({"inspect", file});
  EXPECT_EQ(shown["architecture"]["family"], "llama");
  ASSERT_EQ(shown["tensors"].size(), 11u);
  for (const auto& tensor : shown["tensors"]) {
    const std::string name = tensor["name"];
    SCOPED_TRACE(name);
    const bool q8 = name.find("q_proj") != std::string::npos || name.find("v_proj") != std::string::npos ||
                    name.find("mlp") != std::string::npos || name.find("embed") != std::string::npos;
    EXPECT_EQ(tensor["storage"], q8 ? "Q8_0" : "F32");
    EXPECT_TRUE(near(tensor["bits_per_weight"], q8 ? 8.5 : 32.0, {}));
    EXPECT_GT(tensor["deviation"].get<double>(), 0.0);
  }
  // q 1024, v 512 and the MLP's 3 x 2048 at 8.5 bits, k 512 and o 1024 at 32.
  EXPECT_TRUE(near(shown["bits_per_weight"], (7680 * 8.5 + 1536 * 32.0) / 9216, {.rel = 1e-12}));
  EXPECT_EQ(shown["method"], "mixed");
  EXPECT_EQ(shown["parameters"], 288 * 32 + 9216 + 3 * 32);
  EXPECT_THAT(nibble({"inspect", file}).out, HasSubstr("Q8_0"));
}

TEST_F(GgufCommands, InspectDrawsAndCompresses) {
  ASSERT_EQ(nibble({"inspect", file, "--graph", dir / "graph.json"}).exit_code, 0);
  std::filesystem::copy(test::source_path("datasets/demo/gpt2-demo"), dir / "model",
                        std::filesystem::copy_options::recursive);
  const std::string before = test::read_file(dir / "model/config.json");
  const ProgramRun over = nibble({"inspect", dir / "model", "--graph", dir / "model/config.json"});
  EXPECT_EQ(over.exit_code, 2);
  EXPECT_THAT(over.err, HasSubstr("lies inside the model"));
  EXPECT_EQ(test::read_file(dir / "model/config.json"), before);
  EXPECT_THAT(read_file(dir / "graph.json"), HasSubstr("Q8_0"));
  const auto drawn = nibble_json({"inspect", file, "--graph", dir / "graph.dot"});
  EXPECT_EQ(drawn["graph"], (dir / "graph.dot").string());
  EXPECT_EQ(drawn["bytes"], std::filesystem::file_size(dir / "graph.dot"));
  const auto study = nibble({"inspect", file, "--compress", "--quiet"});
  EXPECT_EQ(study.exit_code, 0) << study.err;
  EXPECT_THAT(study.out, HasSubstr("blocks of Q8_0"));
}

TEST_F(GgufCommands, ExportBringsItBackToADirectoryThatIsTheSameModel) {
  const auto written = nibble_json({"export", file, "--format", "dequantized", "--dtype", "float32", "-o", dir / "hf"});
  for (const char* const name : {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"})
    EXPECT_TRUE(std::filesystem::exists(dir / "hf" / name)) << name;
  const std::string directory = dir / "hf";
  const auto of_file = perplexity(file), of_directory = perplexity(directory);
  EXPECT_EQ(of_file["perplexity"], of_directory["perplexity"]) << "the same floats, multiplied in the same order";
  EXPECT_EQ(of_file["tokens_hash"], of_directory["tokens_hash"]);
  const auto compared = perplexity(file, {"--reference", directory});
  EXPECT_TRUE(near(compared["reference"]["kl_nats_per_token"], 0.0, {}));
  EXPECT_EQ(nibble_json({"generate", file, "--prompt", "the world", "-n", "12"})["ids"],
            nibble_json({"generate", directory, "--prompt", "the world", "-n", "12"})["ids"]);
  const auto diff = nibble({"diff", file, directory});
  EXPECT_EQ(diff.exit_code, 0) << diff.err;
}

TEST_F(GgufCommands, PerplexityTakesItAsAReferenceToo) {
  ASSERT_EQ(nibble({"quantize", file, "--set", "bits=3", "-o", dir / "q"}).exit_code, 0);
  const auto compared = perplexity(dir / "q", {"--reference", file});
  EXPECT_GT(compared["reference"]["kl_nats_per_token"].get<double>(), 0.0);
}

TEST_F(GgufCommands, PerplexityRefusesAReferenceOfAnotherTokenizer) {
  TinyLlama other = model;
  auto tokens = TinyLlama::tokens();
  std::swap(tokens[260], tokens[261]);  // a and b
  other.set("tokenizer.ggml.tokens", 9, TinyLlama::strings(tokens));
  write_file(dir / "other.gguf", other.bytes());
  const auto run = nibble({"perplexity", file, "--text", text, "--context", "32", "--reference", dir / "other.gguf"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("another tokenizer"));
}

TEST_F(GgufCommands, CalibrateAndQuantizeAndTheRest) {
  ASSERT_EQ(nibble({"calibrate", file, "--text", text, "--length", "32", "--samples", "4", "--collect",
                    "activations,fisher,hessian,guided-hessian,output-hessian", "-o", dir / "calib.h5"})
                .exit_code,
            0);
  const auto quantized =
      nibble_json({"quantize", file, "--preset", "scalar-one-shot", "--calib", dir / "calib.h5", "-o", dir / "q"});
  EXPECT_EQ(quantized["tensors"][0]["name"], "model.layers.0.self_attn.q_proj");
  EXPECT_EQ(nibble_json({"tokenize", dir / "q", "--text", text, "--ids"})["ids"],
            nibble_json({"tokenize", file, "--text", text, "--ids"})["ids"]);
  EXPECT_GT(perplexity(dir / "q")["perplexity"].get<double>(), 1.0);
  // The embedding that is not quantized is copied: as float16, which holds what Q8_0 decodes to here exactly.
  const auto shown = nibble_json({"inspect", dir / "q"});
  const auto embedding = std::find_if(shown["tensors"].begin(), shown["tensors"].end(),
                                      [](const auto& tensor) { return tensor["name"] == "model.embed_tokens.weight"; });
  ASSERT_NE(embedding, shown["tensors"].end());
  EXPECT_EQ((*embedding)["storage"], "F16");

  const auto evaluated = nibble_json({"evaluate", file, "--text", text, "--context", "32", "--reference", dir / "q",
                                      "--prompt", "8", "--generate", "4", "--skip-limits"});
  EXPECT_EQ(evaluated["perplexity"], perplexity(file)["perplexity"]);
  EXPECT_EQ(nibble({"speed", file, "--context", "16", "--generate", "4", "--repeat", "2", "--skip-limits"}).exit_code,
            0);
  const auto compared = nibble_json({"compare-logits", file, "--text", text, "--max-tokens", "40", "--chunk", "1,4"});
  EXPECT_EQ(compared["agrees"], true);
}

TEST_F(GgufCommands, SweepsRunOverIt) {
  write_file(dir / "sweep.yaml", "models: [" + file + "]\nevaluations:\n  - {name: eval, text: " + text +
                                     ", protocol: blocks, context: 32, max_tokens: 128}\nlist:\n  - float\n"
                                     "  - {preset: int4-block}\n");
  const auto run = nibble({"sweep", dir / "sweep.yaml", "-o", dir / "results", "--quiet"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
}

// Packed loading reads plain floats of the file where they lie: by the same rows as the rest.
TEST_F(GgufCommands, PackedProductsAgreeWithDecodedOnes) {
  const auto exact = perplexity(file, {"--compute", "exact"}), reference = perplexity(file);
  // 2^-24 a few hundred times per logit.
  EXPECT_TRUE(near(exact["perplexity"], reference["perplexity"].get<double>(), {.rel = 1e-5}));
}

TEST_F(GgufCommands, ASplitIsOpenedThroughItsFirstFile) {
  TinyLlama first = model, second = model;
  second.keys.clear();
  for (auto [part, number] : {std::pair(&first, 0), std::pair(&second, 1)}) {
    part->set("split.no", 2, le<std::uint16_t>(static_cast<std::uint16_t>(number)));
    part->set("split.count", 2, le<std::uint16_t>(2));
  }
  first.tensors.resize(6);
  second.tensors.erase(second.tensors.begin(), second.tensors.begin() + 6);
  write_file(dir / "m-00001-of-00002.gguf", first.bytes());
  const auto alone = nibble({"inspect", dir / "m-00001-of-00002.gguf"});
  EXPECT_EQ(alone.exit_code, 3);
  EXPECT_THAT(alone.err, HasSubstr("m-00002-of-00002.gguf' is not there"));
  write_file(dir / "m-00002-of-00002.gguf", second.bytes());
  const auto later = nibble({"inspect", dir / "m-00002-of-00002.gguf"});
  EXPECT_EQ(later.exit_code, 3);
  EXPECT_THAT(later.err, HasSubstr("open the first one"));
  EXPECT_EQ(perplexity(dir / "m-00001-of-00002.gguf")["perplexity"], perplexity(file)["perplexity"]);
}

TEST_F(GgufCommands, QuantizeRefusesNothingThatItHolds) {
  const auto planned = nibble_json({"quantize", file, "--set", "bits=4", "-o", dir / "q4"});
  EXPECT_EQ(planned["tensors"].size(), 7u);
}

TEST_F(GgufCommands, DirectoriesThatHoldOneSaySo) {
  const auto run = nibble({"inspect", dir.path().string()});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, HasSubstr("give its own path"));
}

}  // namespace
}  // namespace nibble::test

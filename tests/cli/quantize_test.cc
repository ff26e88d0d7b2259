#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "core/text/json.h"
#include "tests/cli/nibble.h"
#include "tests/support/compare.h"

namespace nibble::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

struct Quantize : testing::Test {
  TempDir temp;
  std::string model = demo_path("gpt2-demo");
  std::string output = temp / "out";
};

TEST_F(Quantize, JsonHasTotalsRecipeAndATensorEach) {
  const auto result = nibble_json({"quantize", model, "--set", "bits=3", "--set", "granularity=channel", "-o", output});
  for (const char* key : {"model", "output", "bits_per_weight", "model_bits_per_weight", "file_bytes", "weights",
                          "seconds", "threads", "peak_anonymous_bytes", "parameters", "tensor_bytes"})
    EXPECT_TRUE(result.contains(key)) << key;
  EXPECT_EQ(result["recipe"]["defaults"]["bits"], 3);
  EXPECT_EQ(result["tensors"].size(), 4 * 6);  // four blocks of q, k, v, c_proj, c_fc, c_proj
  double stored_bits = 0.0, weights = 0.0;
  for (const auto& tensor : result["tensors"]) {
    EXPECT_EQ(tensor["format"], "palette");
    EXPECT_GT(tensor["relative_weight_error"], 0.0);
    EXPECT_LE(tensor["optimality_gap"], 1e-6);
    stored_bits += tensor["stored_bits"].get<double>();
    weights += tensor["weights"].get<double>();
  }
  EXPECT_EQ(result["weights"], weights);
  EXPECT_TRUE(near(result["bits_per_weight"], stored_bits / weights, {.rel = 1e-15}));  // one division
}

TEST_F(Quantize, HumanOutputIsATableWithTotals) {
  const ProgramRun run = nibble({"quantize", model, "--preset", "int4-block", "-o", output});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  for (const char* words : {"tensor", "bits/weight", "relative error", "h.0.attn.c_attn.q", "24 tensors", "4.5000"})
    EXPECT_THAT(run.out, HasSubstr(words));
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 24) << "a line for each weight, and nothing else";
  EXPECT_THAT(run.err, ContainsRegex("h.3.mlp.c_fc +4.5000 bits/weight  weight error 0.0[0-9]+  [0-9.]+ m?s\n"));
  EXPECT_THAT(run.err, Not(HasSubstr("\x1b"))) << "a log file is no terminal";
}

TEST_F(Quantize, TotalsAreOfAllTensorsAndBlocksHaveTheirOwn) {
  const std::string recipe = temp / "recipe.yaml";
  write_file(recipe, "defaults: {format: int4-block}\nlayers: [{match: 'wte', format: float16}]\n");
  const ProgramRun run = nibble({"quantize", model, "-r", recipe, "-o", output});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, ContainsRegex("25 tensors +[0-9,]+ +[5-9][.][0-9]+")) << "with the embedding";
  EXPECT_THAT(run.out, HasSubstr(" 4.5000 over the linear layers of its blocks"));
}

// A tensor more than config.json asks for, at the end of a safetensors file.
void add_tensor(const std::filesystem::path& file, const std::string& name) {
  const std::string bytes = read_file(file);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  auto header = nlohmann::json::parse(bytes.substr(sizeof length, length));
  const std::size_t end = bytes.size() - sizeof length - length;
  header[name] = {{"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {end, end + 4}}};
  const std::string text = header.dump();
  length = text.size();
  write_file(file, std::string(reinterpret_cast<const char*>(&length), sizeof length) + text +
                       bytes.substr(bytes.size() - end) + std::string(4, '\0'));
}

TEST_F(Quantize, TensorsThatConfigJsonAsksNotForAreWarnedOf) {
  const std::filesystem::path more = temp / "more";
  std::filesystem::copy(model, more);
  add_tensor(more / "model.safetensors", "h.0.attn.q_norm.weight");
  const std::string warning =
      "warning: '" + more.string() + "': config.json asks for no tensor h.0.attn.q_norm.weight: left out\n";
  const ProgramRun run = nibble({"quantize", more, "-o", output});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr(warning));
  const ProgramRun exported = nibble({"export", more, "-o", temp / "floats"});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_THAT(exported.err, HasSubstr(warning));
}

TEST_F(Quantize, SpecialTokensBeyondTheVocabularyAreWarnedOf) {
  const std::filesystem::path odd = temp / "odd";
  std::filesystem::copy(model, odd);
  auto config = nlohmann::json::parse(read_file(odd / "config.json"));
  config["bos_token_id"] = config["eos_token_id"] = 50256;
  write_file(odd / "config.json", config.dump());
  const auto warning = [](const std::filesystem::path& of) {
    return "warning: '" + of.string() + "': bos_token_id 50256, eos_token_id 50256 are beyond the vocabulary of ";
  };
  const ProgramRun run = nibble({"quantize", odd, "-o", output});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr(warning(odd)));
  const ProgramRun measured = nibble({"perplexity", output, "--text", kEvalText, "--max-tokens", "100"});
  ASSERT_EQ(measured.exit_code, 0) << measured.err;
  EXPECT_THAT(measured.err, HasSubstr(warning(output)));

  // An id that llama.cpp would not find is not written, so the file has nothing to be warned of.
  const std::filesystem::path file = temp / "odd.gguf";
  ASSERT_EQ(nibble({"export", odd, "-o", file, "--format", "gguf"}).exit_code, 0);
  const ProgramRun again = nibble({"perplexity", file, "--text", kEvalText, "--max-tokens", "100"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.err, Not(HasSubstr("beyond the vocabulary")));
}

TEST_F(Quantize, RulesThatApplyToNoTensorAreWarnedOf) {
  write_file(temp / "recipe.yaml", "layers: [{match: c_fcc, bits: 3}, {match: c_fc, bits: 3}, {match: ln_1, bits: 3}]");
  const ProgramRun run = nibble({"quantize", model, "-r", temp / "recipe.yaml", "-o", output});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("warning: rules that apply to no tensor of '" + model + "': 'c_fcc', 'ln_1'\n"));
  const auto json = nibble_json({"quantize", model, "-r", temp / "recipe.yaml", "-o", output, "--overwrite"});
  EXPECT_EQ(json["unused_rules"], (std::vector<std::string>{"c_fcc", "ln_1"}));
  write_file(temp / "recipe.yaml", "layers: [{match: '.', bits: 3}]");
  const auto broad = nibble_json({"quantize", model, "-r", temp / "recipe.yaml", "-o", output, "--overwrite"});
  EXPECT_FALSE(broad.contains("unused_rules"));
}

TEST_F(Quantize, QuietIsQuiet) {
  const ProgramRun run = nibble({"quantize", model, "--preset", "int4-block", "-o", output, "--quiet"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.err, "");
}

TEST_F(Quantize, TheOutputThatIsReplacedHoldsNoFileOfTheCommand) {
  ASSERT_EQ(nibble({"quantize", model, "-o", output}).exit_code, 0);
  const std::string recipe = output + "/recipe.yaml";
  write_file(recipe, "defaults: {bits: 2}");
  const ProgramRun run = nibble({"quantize", model, "-r", recipe, "-o", output, "--overwrite"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("recipe.yaml' lies in the output"));
  EXPECT_TRUE(std::filesystem::exists(recipe));
}

TEST_F(Quantize, AnExistingOutputIsKeptUnlessOverwriteIsGiven) {
  ASSERT_EQ(nibble({"quantize", model, "-o", output}).exit_code, 0);
  const std::string before = read_file(std::filesystem::path(output) / "model.safetensors");
  const ProgramRun refused = nibble({"quantize", model, "--set", "bits=2", "-o", output});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr(output));
  EXPECT_THAT(refused.err, HasSubstr("overwrite"));
  EXPECT_THAT(nibble({"quantize", model, "--samples", "3", "-o", output}).err,
              HasSubstr("--samples means nothing beside no --text and no --tokens"));
  EXPECT_EQ(read_file(std::filesystem::path(output) / "model.safetensors"), before);
  EXPECT_EQ(nibble({"quantize", model, "--set", "bits=2", "-o", output, "--overwrite"}).exit_code, 0);
  EXPECT_NE(read_file(std::filesystem::path(output) / "model.safetensors"), before);
}

TEST_F(Quantize, TheNumberOfThreadsDoesNotChangeTheFile) {
  ASSERT_EQ(nibble({"quantize", model, "-o", temp / "one", "--threads", "1"}).exit_code, 0);
  ASSERT_EQ(nibble({"quantize", model, "-o", temp / "four", "--threads", "4"}).exit_code, 0);
  EXPECT_EQ(read_file(temp / "one/model.safetensors"), read_file(temp / "four/model.safetensors"));
}

TEST_F(Quantize, ThePrintedRecipeIsARecipe) {
  const ProgramRun printed = nibble({"quantize", "--preset", "int4-block", "--print-recipe"});
  ASSERT_EQ(printed.exit_code, 0) << printed.err;
  EXPECT_THAT(printed.out, HasSubstr("format: int4-block"));
  write_file(temp / "recipe.yaml", printed.out);
  EXPECT_EQ(nibble({"quantize", "--recipe", temp / "recipe.yaml", "--print-recipe"}).out, printed.out);
  ASSERT_EQ(nibble({"quantize", model, "--recipe", temp / "recipe.yaml", "-o", temp / "a"}).exit_code, 0);
  ASSERT_EQ(nibble({"quantize", model, "--preset", "int4-block", "-o", temp / "b"}).exit_code, 0);
  EXPECT_EQ(read_file(temp / "a/model.safetensors"), read_file(temp / "b/model.safetensors"));
}

TEST_F(Quantize, APrintedRecipeUsesNothingElse) {
  for (const std::string option : {"--output", "--calib", "--for", "--text", "--tokens"}) {
    const ProgramRun run = nibble({"quantize", "--preset", "int4-block", "--print-recipe", option, "x"});
    EXPECT_EQ(run.exit_code, 2) << option;
    EXPECT_THAT(run.err, HasSubstr(option + " means nothing beside --print-recipe"));
  }
  for (const std::string option : {"--memory", "--threads"}) {
    const ProgramRun run = nibble({"quantize", "--preset", "int4-block", "--print-recipe", option, "1"});
    EXPECT_EQ(run.exit_code, 2) << option;
    EXPECT_THAT(run.err, HasSubstr(option + " means nothing beside --print-recipe"));
  }
  EXPECT_THAT(nibble({"quantize", "--preset", "int4-block", "--print-recipe", "-q"}).err,
              HasSubstr("--quiet means nothing beside --print-recipe"));
  const ProgramRun list = nibble({"export", "--list", "--format", "gguf"});
  EXPECT_EQ(list.exit_code, 2);
  EXPECT_THAT(list.err, HasSubstr("--format excludes --list"));
  EXPECT_THAT(nibble({"export", "--list", "--threads", "1"}).err, HasSubstr("--list excludes --threads"));
  EXPECT_THAT(nibble({"export", "--list", "-q"}).err, HasSubstr("--list excludes --quiet"));
}

TEST_F(Quantize, RecipeMistakesAreUsageErrorsThatSuggestTheNearest) {
  const ProgramRun key = nibble({"quantize", model, "-o", output, "--set", "granularty=channel"});
  EXPECT_EQ(key.exit_code, 2);
  EXPECT_THAT(key.err, HasSubstr("granularity"));

  write_file(temp / "recipe.yaml", "defaults: {format: palette, bitts: 4}\n");
  const ProgramRun file = nibble({"quantize", model, "-o", output, "--recipe", temp / "recipe.yaml"});
  EXPECT_EQ(file.exit_code, 2);
  EXPECT_THAT(file.err, HasSubstr("did you mean 'bits'?"));

  const ProgramRun preset = nibble({"quantize", model, "-o", output, "--preset", "int4-blok"});
  EXPECT_EQ(preset.exit_code, 2);
  EXPECT_THAT(preset.err, HasSubstr("int4-block"));

  for (const char* value : {"bits=9", "bits=x", "bits", "=3", ""}) {
    EXPECT_EQ(nibble({"quantize", model, "-o", output, "--set", value}).exit_code, 2) << value;
  }
  EXPECT_FALSE(std::filesystem::exists(output));
}

TEST_F(Quantize, MissingAndBadFilesAreFileErrors) {
  EXPECT_EQ(nibble({"quantize", temp / "nothing", "-o", output}).exit_code, 3);
  const ProgramRun recipe = nibble({"quantize", model, "-o", output, "--recipe", temp / "nothing.yaml"});
  EXPECT_EQ(recipe.exit_code, 3);
  EXPECT_THAT(recipe.err, HasSubstr("nothing.yaml"));

  std::filesystem::create_directory(temp / "broken");
  write_file(temp / "broken/config.json", "{\"model_type\": ");
  write_file(temp / "broken/model.safetensors", "");
  const ProgramRun broken = nibble({"quantize", temp / "broken", "-o", output});
  EXPECT_EQ(broken.exit_code, 3);
  EXPECT_EQ(broken.out, "");
  EXPECT_FALSE(std::filesystem::exists(output));
}

TEST_F(Quantize, SaysWhatIsMissing) {
  EXPECT_THAT(nibble({"quantize", "-o", output}).err, HasSubstr("MODEL is required"));
  EXPECT_THAT(nibble({"quantize", model}).err, HasSubstr("--output is required"));
  const ProgramRun both = nibble({"quantize", model, "--preset", "palette", "--recipe", "r.yaml", "-o", output});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_THAT(both.err, HasSubstr("--recipe and --preset"));
}

}  // namespace
}  // namespace nibble::test

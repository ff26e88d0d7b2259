#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/cli/nibble.h"

namespace nibble::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Generate : testing::Test {
  TempDir temp;
  std::string model = demo_path("llama-demo");
};

TEST_F(Generate, StreamsThePromptAndItsContinuation) {
  const ProgramRun run = nibble({"generate", model, "--prompt", "The old house", "-n", "20"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, StartsWith("The old house"));
  EXPECT_EQ(run.out.back(), '\n');
  EXPECT_THAT(run.err, HasSubstr("20 tokens"));
  EXPECT_EQ(nibble({"generate", model, "--prompt", "The old house", "-n", "20", "--quiet"}).err, "");
}

TEST_F(Generate, JsonHasIdsAndTheSameText) {
  const auto result = nibble_json({"generate", model, "--prompt", "The old house", "-n", "20"});
  EXPECT_EQ(result["ids"].size(), 20);
  EXPECT_EQ(result["stop"], "length");
  EXPECT_EQ(result["prompt"], "The old house");
  for (const char* key : {"prompt_ids", "seed", "temperature", "tokens_per_second", "first_token_ms", "threads"})
    EXPECT_TRUE(result.contains(key)) << key;
  EXPECT_EQ(nibble({"generate", model, "--prompt", "The old house", "-n", "20"}).out,
            "The old house" + result["text"].get<std::string>() + "\n");
}

TEST_F(Generate, IdsAndTextOfAPromptAreTheSamePrompt) {
  const auto text = nibble_json({"generate", model, "--prompt", "The old house", "-n", "8"});
  std::string list;
  for (const auto& id : text["prompt_ids"]) list += std::to_string(id.get<unsigned>()) + ",";
  const auto ids = nibble_json({"generate", model, "--prompt-ids", list, "-n", "8"});
  EXPECT_EQ(ids["ids"], text["ids"]);
  EXPECT_EQ(ids["text"], text["text"]);
}

// As GLM's [gMASK]<sop>.
TEST_F(Generate, AllThatTheTokenizerPutsBeforeATextGoesBeforeThePrompt) {
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(std::filesystem::path(model) / name, temp / name);
  auto file = nlohmann::json::parse(read_file(std::filesystem::path(model) / "tokenizer.json"));
  file["post_processor"] = nlohmann::json::parse(R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "a", "type_id": 0}}, {"SpecialToken": {"id": "b", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [], "special_tokens": {"a": {"id": "a", "ids": [7]}, "b": {"id": "b", "ids": [9]}}})");
  write_file(temp / "tokenizer.json", file.dump());
  auto ids = nibble_json({"generate", model, "--prompt", "The old", "-n", "1"})["prompt_ids"].get<std::vector<int>>();
  ids.insert(ids.begin(), {7, 9});
  EXPECT_EQ(nibble_json({"generate", temp.path().string(), "--prompt", "The old", "-n", "1"})["prompt_ids"], ids);
}

TEST_F(Generate, SamplingDependsOnTheSeedAlone) {
  const auto ids = [&](const char* seed, const char* threads) {
    return nibble_json({"generate", model, "--prompt", "The", "-n", "30", "--temperature", "1", "--top-k", "50",
                        "--top-p", "0.95", "--seed", seed, "--threads", threads})["ids"];
  };
  EXPECT_EQ(ids("1", "1"), ids("1", "3"));
  EXPECT_NE(ids("1", "1"), ids("2", "1"));
}

TEST_F(Generate, EndsWhereTheContextEnds) {
  const auto result = nibble_json({"generate", model, "--prompt", "The", "-n", "1000"});
  EXPECT_EQ(result["stop"], "context");
  EXPECT_EQ(result["prompt_ids"].size() + result["ids"].size(), 257);  // the last token need not be run
}

TEST_F(Generate, WrongUsageIsExplained) {
  const auto error_of = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"generate", model});
    const ProgramRun run = nibble(options);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    return run.err;
  };
  EXPECT_THAT(error_of({}), HasSubstr("expected one of --prompt TEXT and --prompt-ids LIST, got neither"));
  EXPECT_THAT(error_of({"--prompt", "a", "--prompt-ids", "1"}), HasSubstr("got both"));
  EXPECT_THAT(error_of({"--prompt", ""}), HasSubstr("the prompt is empty"));
  EXPECT_THAT(error_of({"--prompt-ids", ""}), HasSubstr("at least one id"));
  EXPECT_THAT(error_of({"--prompt-ids", "1,99999"}), HasSubstr("below 2048, got '99999'"));
  EXPECT_THAT(error_of({"--prompt-ids", "1,x"}), HasSubstr("got 'x'"));
  EXPECT_THAT(error_of({"--prompt", "a", "--temperature", "-1"}), HasSubstr("--temperature: expected a number"));
  EXPECT_THAT(error_of({"--prompt", "a", "--temperature", "nan"}), HasSubstr("--temperature: expected a number"));
  EXPECT_THAT(error_of({"--prompt", "a", "--temperature", "1", "--top-p", "0"}), HasSubstr("top_p"));
  EXPECT_THAT(error_of({"--prompt", "a", "--cache", "window", "--cache-size", "64"}), HasSubstr("--window-context"));
  EXPECT_THAT(error_of({"--prompt", "a", "--window-chunk", "8"}), HasSubstr("--window-chunk goes with --cache window"));
  EXPECT_THAT(error_of({"--prompt", "a", "--cache", "io", "--window-context", "8"}), HasSubstr("not with --cache io"));
  for (const char* drawn : {"--top-k", "--top-p", "--seed"})
    EXPECT_THAT(error_of({"--prompt", "a", drawn, "1"}), HasSubstr(std::string(drawn) + " means nothing beside"));
  EXPECT_THAT(error_of({"--prompt", "a", "--json", "-q"}), HasSubstr("--quiet means nothing beside --json"));
  EXPECT_THAT(error_of({"--prompt", "a", "--temprature", "1"}), HasSubstr("did you mean '--temperature'?"));
}

TEST_F(Generate, NothingIsPrintedOfAPromptThatIsRefused) {
  const ProgramRun run = nibble({"generate", model, "--prompt", "The door opened and then", "--cache-size", "1"});
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_EQ(run.out, "");
}

TEST_F(Generate, WithoutATokenizerIdsStillWork) {
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(std::filesystem::path(model) / name, temp / name);
  const ProgramRun ids = nibble({"generate", temp.path().string(), "--prompt-ids", "5 6 7", "-n", "3"});
  EXPECT_EQ(ids.exit_code, 0) << ids.err;
  EXPECT_TRUE(nibble_json({"generate", temp.path().string(), "--prompt-ids", "5", "-n", "3"})["text"].is_null());
  const ProgramRun text = nibble({"generate", temp.path().string(), "--prompt", "The", "-n", "3"});
  EXPECT_EQ(text.exit_code, 3);
  EXPECT_THAT(text.err, HasSubstr("give --prompt-ids instead"));
}

}  // namespace
}  // namespace nibble::test

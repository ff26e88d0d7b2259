#include "tests/cli/nibble.h"

namespace nibble::test {
namespace {

TEST(GenerateGolden, Stories260kTellsItsStory) {
  NIBBLE_NEEDS_SHARED("golden/stories260k/greedy.json");
  const auto golden = nlohmann::json::parse(read_file(shared_path("golden/stories260k/greedy.json")));
  const std::string model = shared_path("models/stories260k");
  const auto result = nibble_json({"generate", model, "--prompt", "", "-n", "100"});  // BOS is all there is
  EXPECT_EQ(result["prompt_ids"], golden["prompt_ids"]);
  EXPECT_EQ(result["ids"], golden["greedy_ids"]);
  EXPECT_EQ(result["text"], golden["text"]);
  EXPECT_EQ(nibble({"generate", model, "--prompt", "", "-n", "100"}).out, golden["text"].get<std::string>() + "\n");
}

class EachModel : public testing::TestWithParam<const char*> {};

TEST_P(EachModel, ContinuesThePromptGreedily) {
  const std::string name = GetParam();
  NIBBLE_NEEDS_SHARED("golden/" + name + "/greedy.json");
  const auto golden = nlohmann::json::parse(read_file(shared_path("golden/" + name + "/greedy.json")));
  std::string prompt;
  for (const auto& id : golden["prompt_ids"]) prompt += std::to_string(id.get<unsigned>()) + " ";
  const std::string model = name.ends_with("demo") ? demo_path(name) : shared_path("models/" + name).string();
  EXPECT_EQ(nibble_json({"generate", model, "--prompt-ids", prompt, "-n", "48"})["ids"], golden["greedy_ids"]);
}

INSTANTIATE_TEST_SUITE_P(Models, EachModel, testing::Values("gpt2-demo", "llama-demo", "gpt2-novels", "llama-novels"));

}  // namespace
}  // namespace nibble::test

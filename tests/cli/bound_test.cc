#include "tests/cli/nibble.h"

namespace nibble::test {
namespace {

std::vector<std::string> small(std::vector<std::string> more, const std::string& layers = "2") {
  std::vector<std::string> arguments = {"bound", "--rows", "32", "--columns", "64", "--layers", layers};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<std::string> names_of(const nlohmann::json& json) {
  std::vector<std::string> names;
  for (const auto& method : json["methods"]) names.push_back(method["name"]);
  return names;
}

TEST(Bound, ComparesTheUsualMethodsAtThreeWidths) {
  const auto json = nibble_json(small({}));
  EXPECT_EQ(json["methods"].size(), 18u);
  EXPECT_EQ(json["rows"], 32);
  EXPECT_EQ(json["methods"][17]["name"], "best:bits=2");
  EXPECT_EQ(json["methods"][17]["recipe"]["defaults"]["window_bits"], 8);
  for (const auto& method : json["methods"]) {
    EXPECT_GT(method["decibels_above"]["mean"].get<double>(), 0.0) << method;
    EXPECT_GT(method["decibels_above"]["standard_error"].get<double>(), 0.0) << method;
  }
}

TEST(Bound, TakesMethodsWithKeysAndWidths) {
  const TempDir dir;
  write_file(dir / "mine.yaml", "defaults: {format: palette, bits: 3}\n");
  const auto json = nibble_json(small({"palette", "palette:granularity=channel:bits=5", "nf4", dir / "mine.yaml"}));
  EXPECT_EQ(names_of(json),
            (std::vector<std::string>{"palette:bits=4", "palette:bits=3", "palette:bits=2",
                                      "palette:granularity=channel:bits=5", "nf4", (dir / "mine.yaml").string()}));
  EXPECT_EQ(json["methods"][3]["recipe"]["defaults"]["granularity"], "channel");
  EXPECT_EQ(json["methods"][5]["recipe"]["defaults"]["bits"], 3);
  const auto wider = nibble_json(small({dir / "mine.yaml", "--bits", "6,5"}));
  EXPECT_EQ(names_of(wider), (std::vector<std::string>{(dir / "mine.yaml").string() + ":bits=6",
                                                       (dir / "mine.yaml").string() + ":bits=5"}));
}

TEST(Bound, PrintsATableThatSaysWhatWasMeasured) {
  const auto run = nibble(small({"gptq", "--bits", "3", "--tail", "0"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  for (const char* words : {"2 layers of 32 by 64: normal weights", "gptq:bits=3", "bits above", " ± "})
    EXPECT_NE(run.out.find(words), std::string::npos) << run.out;
  const auto one = nibble(small({"gptq", "--bits", "3"}, "1"));
  EXPECT_EQ(one.exit_code, 0) << one.err;
  EXPECT_EQ(one.out.find(" ± "), std::string::npos) << one.out;
  EXPECT_NE(one.out.find("Student's t with 5"), std::string::npos) << one.out;
}

TEST(Bound, SaysWhatItCannotDo) {
  const auto refused = [](std::vector<std::string> more, int exit_code, const char* words) {
    const auto run = nibble(small(std::move(more)));
    EXPECT_EQ(run.exit_code, exit_code) << run.err;
    EXPECT_NE(run.err.find(words), std::string::npos) << run.err;
  };
  refused({"beste"}, 2, "best");
  refused({"best-mixed"}, 2, "budget");
  refused({"scalar:colour=red"}, 2, "colour");
  refused({"scalar", "--tail", "2"}, 2, "3 or more");
  refused({"scalar", "--bits", "9"}, 2, "--bits");
  refused({"./none.yaml"}, 3, "none.yaml");
}

}  // namespace
}  // namespace nibble::test

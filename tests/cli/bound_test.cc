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
  EXPECT_EQ(json["methods"][17]["name"], "best-one-shot:bits=2");
  EXPECT_EQ(json["methods"][17]["recipe"]["defaults"]["window_bits"], 8);
  for (const auto& method : json["methods"]) {
    EXPECT_GT(method["decibels_above"]["mean"].get<double>(), 0.0) << method;
    EXPECT_GT(method["decibels_above"]["standard_error"].get<double>(), 0.0) << method;
  }
}

TEST(Bound, TakesMethodsWithKeysAndWidths) {
  const TempDir dir;
  const std::string mine = dir / "a:b.yaml";
  write_file(mine, "defaults: {format: palette, bits: 3}\n");
  const std::vector<std::string> methods = {"palette", "palette:granularity=channel:bits=5", "nf4", mine};
  const auto json = nibble_json(small(methods));
  EXPECT_EQ(names_of(json), methods);
  EXPECT_EQ(json["methods"][0]["recipe"]["defaults"]["bits"], 4);  // the preset's own
  EXPECT_EQ(json["methods"][1]["recipe"]["defaults"]["granularity"], "channel");
  EXPECT_EQ(json["methods"][3]["recipe"]["defaults"]["bits"], 3);
  const auto wider = nibble_json(small({"--bits", "6,5", mine, "palette:bits=2", "nf4"}));
  EXPECT_EQ(names_of(wider), (std::vector<std::string>{mine + ":bits=6", mine + ":bits=5", "palette:bits=2", "nf4"}));
  EXPECT_EQ(wider["methods"][0]["recipe"]["defaults"]["bits"], 6);
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
  refused({"best"}, 2, "a preset that ends with -one-shot");
  refused({"scalar:colour=red"}, 2, "colour");
  refused({"palette:"}, 2, "method 'palette:'");
  refused({"palette", "palette"}, 2, "twice");
  refused({"--bits", "3,3"}, 2, "twice");
  refused({"scalar-one-shot", "--spread", "2.5"}, 2, "--spread");
  refused({"nf4", "palette:bits=3", "--bits", "2"}, 2, "--bits changes none");
  refused({"none.yml"}, 3, "none.yml");
  refused({"scalar-one-shot", "--tail", "2"}, 2, "3 or more");
  refused({"scalar-one-shot", "--bits", "9"}, 2, "--bits");
  refused({"./none.yaml"}, 3, "none.yaml");
  const TempDir dir;
  write_file(dir / "ruled.yaml", "defaults: {format: palette}\nlayers: [{match: layer, bits: 6}]\n");
  refused({dir / "ruled.yaml", "--bits", "5"}, 2, "6 bits");
  const auto tiny = nibble({"bound", "--rows", "1", "--columns", "1", "windowed-one-shot"});
  EXPECT_EQ(tiny.exit_code, 4) << tiny.err;
  EXPECT_NE(tiny.err.find("windowed-one-shot: a layer of 1 by 1 is too small"), std::string::npos) << tiny.err;
}

}  // namespace
}  // namespace nibble::test

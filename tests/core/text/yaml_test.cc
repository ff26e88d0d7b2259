#include "core/text/yaml.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/support/throws.h"

namespace nibble {
namespace {

testing::AssertionResult yaml_refused(std::string_view yaml, std::string_view words) {
  return test::throws_with<InvalidArgument>([&] { parse_yaml(yaml, "recipe 'r.yaml'"); }, "recipe 'r.yaml'", words);
}

TEST(YamlReader, ReadsMappingsSequencesAndScalarsInOrder) {
  const auto root = parse_yaml("b: 1\na: [x, {c: 'quoted'}]\nn:\n", "r");
  ASSERT_EQ(root.entries.size(), 3u);
  EXPECT_EQ(root.entries[0].key, "b");
  EXPECT_EQ(root.entries[0].value.text, "1");
  const auto& list = root.entries[1].value;
  ASSERT_EQ(list.items.size(), 2u);
  EXPECT_EQ(list.items[0].text, "x");
  EXPECT_EQ(list.items[1].entries[0].value.text, "quoted");
  EXPECT_EQ(list.line, 2);
  EXPECT_EQ(root.entries[2].value.kind, YamlNode::Kind::kNull);
}

TEST(YamlReader, ReadsJson) {
  const auto root = parse_yaml(R"({"defaults": {"bits": 3}, "list": [1, 2]})", "r");
  EXPECT_EQ(root.entries[0].value.entries[0].value.text, "3");
  EXPECT_EQ(root.entries[1].value.items.size(), 2u);
}

TEST(YamlReader, TakesAnEmptyDocumentForNull) {
  EXPECT_EQ(parse_yaml("", "r").kind, YamlNode::Kind::kNull);
  EXPECT_EQ(parse_yaml("# only a comment\n", "r").kind, YamlNode::Kind::kNull);
  EXPECT_EQ(parse_yaml("", "r").line, 1);
}

TEST(YamlReader, RefusesWhatHidesOrMultiplies) {
  EXPECT_TRUE(yaml_refused("a: 1\nb: 2\na: 3\n", "line 3: duplicate key 'a'"));
  EXPECT_TRUE(yaml_refused("a: &x [1]\nb: *x\n", "line 1: anchors are not allowed"));
  EXPECT_TRUE(yaml_refused("b: *x\n", "line 1"));
  EXPECT_TRUE(yaml_refused("a: !!python/object x\n", "tag"));
  EXPECT_TRUE(yaml_refused("a: 1\n---\nb: 2\n", "several"));
  EXPECT_TRUE(yaml_refused("? [a, b]\n: 1\n", "single word"));
}

TEST(YamlReader, RefusesDepthAndSize) {
  EXPECT_TRUE(yaml_refused(std::string(17, '[') + std::string(17, ']'), "nested more than 16 deep"));
  EXPECT_NO_THROW(parse_yaml(std::string(16, '[') + std::string(16, ']'), "r"));
  EXPECT_TRUE(yaml_refused(std::string(100'000, '['), "line 1"));
  EXPECT_TRUE(yaml_refused(std::string(kMaxYamlBytes + 1, 'a'), "262144 bytes"));
}

TEST(YamlReader, RefusesWhatIsNotUtf8) {
  EXPECT_TRUE(yaml_refused("a: 1\npatterns:\n  h.0.\xff*: 2\n", "line 3, column 7: expected UTF-8, got the byte 0xFF"));
  EXPECT_TRUE(yaml_refused("\x80", "line 1, column 1"));
  EXPECT_TRUE(yaml_refused("a: \xed\xa0\x80", "line 1, column 4"));             // a surrogate
  EXPECT_TRUE(yaml_refused("a: caf\xc3", "column 7"));                          // cut off
  EXPECT_TRUE(yaml_refused("a: 1\nb: \"\\uD800\"", "line 2: not valid YAML"));  // half a character
  EXPECT_TRUE(yaml_refused("\"\\uD800\": 1", "line 1: not valid YAML"));
  EXPECT_EQ(parse_yaml("a: \xc3\xa9 \xf0\x9f\x98\x80", "r").entries[0].value.text, "\xc3\xa9 \xf0\x9f\x98\x80");
}

TEST(YamlReader, RefusesWhatIsNotYaml) {
  EXPECT_TRUE(yaml_refused("a: [1, 2", "not valid YAML"));
  EXPECT_TRUE(yaml_refused("a: 'open", "not valid YAML"));
  EXPECT_TRUE(yaml_refused("a:\n  - 1\n b: 2\n", "line"));
}

}  // namespace
}  // namespace nibble

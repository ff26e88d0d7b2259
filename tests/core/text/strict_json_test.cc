#include "core/text/strict_json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "core/error.h"
#include "core/text/json.h"
#include "tests/support/throws.h"

namespace nibble {
namespace {

testing::AssertionResult refused(const std::string& text, std::string_view word) {
  return test::throws_with<FormatError>([&] { parse_strict_json(text, "thing.json"); }, "thing.json", word);
}

TEST(StrictJson, ParsesWhatIsValid) {
  const auto json = parse_strict_json(R"({"a": [1, {"a": "x"}], "b": {"a": null}})", "t");
  EXPECT_EQ(json["a"][1]["a"], "x");
  EXPECT_TRUE(json["b"]["a"].is_null());
}

TEST(StrictJson, DuplicateKeysAreNamedAtAnyDepth) {
  EXPECT_TRUE(refused(R"({"a": 1, "a": 2})", "duplicate key 'a'"));
  EXPECT_TRUE(refused(R"({"x": [{"b": 1, "c": 2, "b": 3}]})", "duplicate key 'b'"));
  EXPECT_TRUE(refused(R"({"\u0061": 1, "a": 2})", "duplicate key 'a'"));
}

TEST(StrictJson, DepthIsLimited) {
  EXPECT_NO_THROW(parse_strict_json(std::string(64, '[') + std::string(64, ']'), "t"));
  EXPECT_TRUE(refused(std::string(65, '[') + std::string(65, ']'), "nested more than 64"));
  EXPECT_TRUE(refused(std::string(1000000, '['), "nested more than 64"));
}

// In time that grows with its length: where it grew with the square this would take longer than tests may.
TEST(StrictJson, AnObjectMayHaveManyObjects) {
  std::string text = "{";
  constexpr int kMany = 300'000;
  for (int i = 0; i < kMany; ++i) text += fmt::format(R"({}"{:06}": {{"bits": [{}]}})", i == 0 ? "" : ", ", i, i);
  const auto json = parse_strict_json(text + "}", "t");
  EXPECT_EQ(json.size(), std::size_t{kMany});
  EXPECT_EQ(json["299999"]["bits"][0], 299'999);
}

TEST(StrictJson, BrokenTextIsRefused) {
  EXPECT_TRUE(refused("", "not valid JSON"));
  EXPECT_TRUE(refused("{", "not valid JSON"));
  EXPECT_TRUE(refused("{} x", "not valid JSON"));
  EXPECT_TRUE(refused(std::string("{}\0 x", 5), "zero byte"));
  EXPECT_TRUE(refused("{\"a\": \"\xff\"}", "not valid JSON"));
  EXPECT_TRUE(refused(R"({"a": 1e999})", "not valid JSON"));
}

// In words of ours, without what was read so far.
TEST(StrictJson, SaysWhereAndWhyTextIsBroken) {
  EXPECT_TRUE(refused(R"({"a": NaN})", "thing.json: not valid JSON at column 7: invalid literal; JSON has no NaN"));
  EXPECT_TRUE(refused(R"({"a": -Infinity})", "at column 8: invalid number; expected digit after '-'; JSON has no NaN"));
  EXPECT_TRUE(refused("{\"a\": 1,\n \"b\": }\n", "at line 2, column 7: unexpected '}'; expected '['"));
  EXPECT_TRUE(refused("{\"a\": 1", "at column 8: unexpected end of input; expected '}'"));
  EXPECT_TRUE(refused(R"({a: 1})", "at column 2: invalid literal; expected string literal"));
  EXPECT_TRUE(refused(R"({"a": 1e999})", "number overflow parsing '1e999'"));
  for (const char* const half : {R"(\ud800)", R"(\ud800\u0041)", R"(\udc00)"}) {
    const std::string text = "{\"text\": \"" + std::string(1000, 'x') + half + "\"}\n";
    try {
      parse_strict_json(text, "thing.json");
      ADD_FAILURE() << half;
    } catch (const FormatError& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find("half of a character"), std::string::npos) << message;
      EXPECT_LT(message.size(), 300u) << message;
    }
  }
}

JsonText text_of(std::string_view json) { return strict_json_text(json, "text", "line 3"); }

TEST(StrictJsonText, IsTheMemberOfTheOutermostObjectAlone) {
  using Kind = JsonText::Kind;
  const JsonText found =
      text_of(R"({"a": {"text": "inner"}, "b": ["text", {"text": 1}], "text": "outer\n\u00e9", "c": 1})");
  EXPECT_EQ(found.kind, Kind::kText);
  EXPECT_EQ(found.text, "outer\n\u00e9");
  EXPECT_EQ(found.keys, (std::vector<std::string>{"a", "b", "text", "c"}));
  EXPECT_EQ(text_of(R"({"a": {"text": "inner"}, "b": "text"})").kind, Kind::kAbsent);
  for (const char* other : {"1", "-1", "1.5", "null", "true", "[\"x\"]", "{\"text\": \"x\"}"})
    EXPECT_EQ(text_of(fmt::format(R"({{"text": {}, "b": "c"}})", other)).kind, Kind::kOther) << other;
  std::string many = R"({"k0": 0)";
  for (int i = 1; i < 20; ++i) many += fmt::format(R"(, "k{}": "x")", i);
  const JsonText absent = text_of(many + "}");
  EXPECT_EQ(absent.key_count, 20u);
  EXPECT_EQ(absent.keys.size(), 8u);
}

TEST(StrictJsonText, RefusesWhatTheWholeIsRefusedFor) {
  for (const auto& [json, reason] :
       {std::pair(R"({"text": "a", "text": "b"})", "duplicate key"), std::pair(R"({"text": "a")", "not valid JSON"),
        std::pair(R"({"text": "a"} 1)", "not valid JSON"), std::pair("[1]", "expected a JSON object, got array"),
        std::pair("1", "expected a JSON object, got number"), std::pair("\"text\"", "got string")})
    EXPECT_TRUE(test::throws_with<FormatError>([&] { text_of(json); }, "line 3", reason)) << json;
  EXPECT_TRUE(test::throws_with<FormatError>([] { text_of(R"({"a": )" + std::string(100, '[')); }, "nested"));
}

}  // namespace
}  // namespace nibble

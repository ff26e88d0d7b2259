#include "core/text/json_fields.h"

#include <gmock/gmock.h>

#include <cmath>

#include "core/error.h"
#include "core/text/json.h"
#include "tests/support/throws.h"

namespace nibble {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;

template <class Read>
testing::AssertionResult refused(const Read& read, std::string_view words) {
  return test::throws_with<FormatError>(read, "'f.json'", words);
}

TEST(JsonFields, ReadsMeasuredNumbersOfWhichNullIsNotANumber) {
  const Json json = {{"a", 2.5}, {"b", -3}, {"c", nullptr}, {"d", "x"}, {"list", {1.5, nullptr}}};
  const JsonFields fields(json, "'f.json'");
  EXPECT_EQ(fields.figure("a"), 2.5);
  EXPECT_EQ(fields.figure("b"), -3.0);
  EXPECT_TRUE(std::isnan(fields.figure("c")));
  EXPECT_EQ(fields.optional_figure("a"), 2.5);
  EXPECT_EQ(fields.optional_figure("c"), std::nullopt);
  EXPECT_EQ(fields.optional_figure("absent"), std::nullopt);
  EXPECT_EQ(fields.figures("list")[0], 1.5);
  EXPECT_TRUE(std::isnan(fields.figures("list")[1]));
  EXPECT_TRUE(refused([&] { fields.figure("absent"); }, "'absent' is missing"));
  EXPECT_TRUE(refused([&] { fields.figure("d"); }, "'d': expected a number, got \"x\""));
  EXPECT_TRUE(refused([&] { fields.optional_figure("d"); }, "'d': expected a number"));
}

TEST(JsonFields, ReadsWholeNumbersWithoutSign) {
  const Json json = {{"n", 7u}, {"minus", -1}, {"list", {1u, 2u}}, {"mixed", {1u, 2.5}}};
  const JsonFields fields(json, "'f.json'");
  EXPECT_EQ(fields.count("n"), 7u);
  EXPECT_THAT(fields.counts("list"), ElementsAre(1u, 2u));
  EXPECT_TRUE(refused([&] { fields.count("minus"); }, "got -1"));
  EXPECT_TRUE(refused([&] { fields.counts("mixed"); }, "'mixed': expected whole numbers, got 2.5"));
  EXPECT_TRUE(refused([&] { fields.counts("n"); }, "'n': expected a list, got 7"));
}

TEST(JsonFields, NamesThePlaceOfAnObjectInAList) {
  const Json json = {{"rows", {{{"x", 1u}}, {{"x", "one"}}}}, {"mixed", {Json::object(), 3}}};
  const JsonFields fields(json, "'f.json'");
  const auto rows = fields.objects("rows");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].count("x"), 1u);
  EXPECT_TRUE(refused([&] { rows[1].count("x"); }, "'f.json': 'rows'[1]: 'x': expected a whole number"));
  EXPECT_TRUE(refused([&] { fields.objects("mixed"); }, "'mixed'[1]: expected a JSON object, got number"));
}

TEST(JsonFields, RefusesWhatNobodyAskedForWithTheNearestKey) {
  const Json json = {{"bits", 4u}, {"bit", 3u}, {"none", nullptr}};
  const JsonFields fields(json, "'f.json'");
  EXPECT_EQ(fields.count("bits"), 4u);
  EXPECT_TRUE(refused([&] { fields.refuse_unread(); }, "unknown key 'bit'; did you mean 'bits'"));
  fields.mark("bit");
  EXPECT_NO_THROW(fields.refuse_unread());
}

TEST(JsonFields, AllowsOnlyTheKeysThatAreListed) {
  const Json json = {{"bits", 4u}, {"later", nullptr}};
  EXPECT_NO_THROW(JsonFields(json, "'f.json'").allow_only({"bits", "group"}));  // null is as good as absent
  EXPECT_TRUE(refused([&] { JsonFields(json, "'f.json'").allow_only({"bit"}); },
                      "'f.json': unknown key 'bits'; did you mean 'bit'"));
}

TEST(JsonFields, AFilledTextIsNotEmpty) {
  const Json json = {{"name", "x"}, {"empty", ""}};
  const JsonFields fields(json, "'f.json'");
  EXPECT_EQ(fields.filled_text("name"), "x");
  EXPECT_TRUE(refused([&] { fields.filled_text("empty"); }, "'f.json': 'empty' must not be empty"));
  EXPECT_TRUE(refused([&] { fields.filled_text("none"); }, "'none' is missing"));
}

}  // namespace
}  // namespace nibble

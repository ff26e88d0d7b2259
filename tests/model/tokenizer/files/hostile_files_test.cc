#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/model/tokenizer/tiny_tokenizer.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using nibble::test::TempDir;
using nibble::test::throws_with;
using nibble::test::write_file;
using test::byte_level_json;
using test::json;
using test::llama2_json;
using test::open_json;
using test::open_text;

/// Opens the file with the field at `pointer` set to `value`: a FormatError with all of `words` must come.
template <class... Words>
testing::AssertionResult refused(json file, const char* pointer, const json& value, Words... words) {
  file[json::json_pointer(pointer)] = value;
  return throws_with<FormatError>([&] { open_json(file); }, "tokenizer.json", words...);
}

template <class... Words>
testing::AssertionResult refused_text(std::string_view text, Words... words) {
  return throws_with<FormatError>([&] { open_text(text); }, "tokenizer.json", words...);
}

template <class... Words>
testing::AssertionResult refused_lists(std::string_view vocabulary, std::string_view merges, Words... words) {
  const TempDir directory;
  write_file(directory / "vocab.json", vocabulary);
  write_file(directory / "merges.txt", merges);
  return throws_with<FormatError>([&] { Tokenizer::open(directory.path()); }, words...);
}

constexpr std::string_view kHead = R"({"version":"1.0","decoder":{"type":"ByteLevel"},"model":{"type":"BPE",)";

TEST(HostileDirectory, WithoutATokenizerIsNamed) {
  const TempDir directory;
  const std::string name = directory.path().string();
  EXPECT_TRUE(throws_with<FormatError>([&] { Tokenizer::open(directory.path()); }, name, "no tokenizer"));
  EXPECT_TRUE(throws_with<FormatError>([&] { Tokenizer::open(directory / "absent"); }, "absent", "no tokenizer"));
  std::filesystem::create_directory(directory / "tokenizer.json");
  EXPECT_TRUE(throws_with<FormatError>([&] { Tokenizer::open(directory.path()); }, "tokenizer.json", "cannot read"));
}

TEST(HostileJson, IsNotJson) {
  EXPECT_TRUE(refused_text("", "not valid JSON"));
  EXPECT_TRUE(refused_text("{\"version\":\"1.0\",", "not valid JSON"));
  EXPECT_TRUE(refused_text("{\"version\":\"\xFF\"}", "not valid JSON"));
  EXPECT_TRUE(refused_text("[]", "expected a JSON object, got array"));
  EXPECT_TRUE(refused_text(std::string(100000, '['), "nested more than 64 deep"));
}

TEST(HostileJson, ATokenTwiceIsADuplicateKey) {
  EXPECT_TRUE(refused_text(std::string(kHead) + R"("vocab":{"a":0,"a":1},"merges":[]}})", "duplicate key 'a'"));
}

TEST(HostileJson, UnknownVersionsAndFieldsAreNamed) {
  EXPECT_TRUE(refused(byte_level_json(), "/version", "2.0", "version '2.0' is not supported"));
  EXPECT_TRUE(refused(byte_level_json(), "/surprise", 1, "unknown key 'surprise'"));
  EXPECT_TRUE(refused(byte_level_json(), "/model/surprise", 1, "model", "unknown key 'surprise'"));
}

TEST(HostileVocabulary, IdsAreChecked) {
  const auto with_ids = [](std::string_view vocabulary) {
    return std::string(kHead) + R"("vocab":)" + std::string(vocabulary) + R"(,"merges":[]}})";
  };
  EXPECT_TRUE(refused_text(with_ids("{}"), "a token or more"));
  EXPECT_TRUE(refused_text(with_ids("[]"), "must be an object"));
  EXPECT_TRUE(refused_text(with_ids(R"({"a":-1})"), "'a'", "below 16777216, got '-1'"));
  EXPECT_TRUE(refused_text(with_ids(R"({"a":0.5})"), "got '0.5'"));
  EXPECT_TRUE(refused_text(with_ids(R"({"a":"0"})"), "got '\"0\"'"));
  EXPECT_TRUE(refused_text(with_ids(R"({"a":16777216})"), "below 16777216, got '16777216'"));
  EXPECT_TRUE(refused_text(with_ids(R"({"a":99999999999999999999999})"), "below 16777216"));
  EXPECT_TRUE(refused_text(with_ids(R"({"a":0,"b":16777215})"), "at most 2 tokens"));
  EXPECT_TRUE(refused_text(with_ids(R"({"a":0,"b":0})"), "'a' and 'b' have the same id 0"));
}

TEST(HostileVocabulary, HolesAreBounded) {
  json file = byte_level_json();
  file["added_tokens"] = json::array();
  const std::size_t known = file["model"]["vocab"].size() + 1;
  file["model"]["vocab"]["ab"] = known + 65536 - 1;  // the last id that is allowed
  EXPECT_EQ(open_json(file)->vocabulary_size(), known + 65536);
  EXPECT_TRUE(refused(file, "/model/vocab/ab", known + 65536, "more than 65536 ids have none"));
}

// Hugging Face's tokenizers gives added tokens that the vocabulary lacks ids from as many on as that has.
TEST(HostileVocabulary, AddedTokensBesideHolesAreInTheVocabulary) {
  json file = byte_level_json();
  EXPECT_TRUE(refused(file, "/added_tokens/0", {{"id", 257}, {"content", "xy"}}, "'xy' has id 257", "gives it 256"));
  file["model"]["vocab"]["ab"] = 257;
  EXPECT_TRUE(refused(file, "/added_tokens/0", {{"id", 258}, {"content", "xy"}}, "'xy' has id 258", "gives it 257"));
  EXPECT_TRUE(refused(file, "/added_tokens/0", {{"id", 256}, {"content", "xy"}}, "'xy' has id 256", "gives it 257"));
}

// An id of no token is spelled as the empty text is.
TEST(HostileVocabulary, NoNameIsThatOfAHole) {
  json file = byte_level_json();
  file["model"]["vocab"]["ab"] = 257;
  for (const json& config : {json{{"eos_token", ""}}, json{{"bos_token", ""}, {"add_bos_token", true}}})
    EXPECT_TRUE(throws_with<FormatError>([&] { open_json(file, config); }, "'' is not in the vocabulary"));
}

TEST(HostileVocabulary, AddedTokensAreChecked) {
  const auto refused_added = [](const json& tokens, auto... words) {
    return refused(byte_level_json(), "/added_tokens", tokens, words...);
  };
  EXPECT_TRUE(refused_added({{{"id", 256}, {"content", ""}}}, "'added_tokens'[0]", "'content' must not be empty"));
  EXPECT_TRUE(refused_added({{{"id", 256}}}, "'content' is missing"));
  EXPECT_TRUE(refused_added({{{"id", -5}, {"content", "x"}}}, "'id': expected a whole number, got -5"));
  EXPECT_TRUE(refused_added({{{"id", 4294967296}, {"content", "xy"}}}, "id 4294967296 is not below 16777216"));
  EXPECT_TRUE(refused_added({{{"id", 65}, {"content", "xy"}}}, "'A' and 'xy' have the same id 65"));
  EXPECT_TRUE(refused_added({{{"id", 256}, {"content", "A"}}}, "'A' has id 256, but 65 in the vocabulary"));
  EXPECT_TRUE(
      refused_added({{{"id", 256}, {"content", "x1"}}, {{"id", 257}, {"content", "x1"}}}, "'x1' is there twice"));
  EXPECT_TRUE(refused_added({{{"id", 256}, {"content", std::string(5 << 20, 'x')}}}, "more than 4194304 bytes"));
  EXPECT_TRUE(
      refused_added({{{"id", 256}, {"content", "x1"}, {"special", 1}}}, "'special': expected true or false, got 1"));
}

TEST(HostileMerges, OfUnknownTokensAreNamed) {
  EXPECT_TRUE(refused(byte_level_json(), "/model/merges/0", "a zz", "merge 0 of 'a' and 'zz'", "'zz' is not in"));
  EXPECT_TRUE(refused(byte_level_json(), "/model/merges/0", "a b", "'ab' is not in the vocabulary"));
}

TEST(HostileMerges, MustBePairs) {
  for (const json& merge : {json("ab"), json("a b c"), json(""), json(7), json::array({"a"}), json::array({"a", 1})}) {
    EXPECT_TRUE(refused(byte_level_json(), "/model/merges/0", merge, "merge 0 must be two tokens"));
  }
  EXPECT_TRUE(refused(byte_level_json(), "/model/merges", "a b", "'merges': expected a list"));
}

TEST(UnsupportedParts, AreNamed) {
  const json file = byte_level_json();
  EXPECT_TRUE(refused(file, "/model/type", "WordPiece", "'WordPiece' is not supported; supported are BPE, Unigram"));
  EXPECT_TRUE(refused(file, "/model/dropout", 0.1, "'dropout' is not supported"));
  EXPECT_TRUE(refused(file, "/model/end_of_word_suffix", "</w>", "'end_of_word_suffix' is not supported"));
  EXPECT_TRUE(refused(file, "/model/unk_token", "zz", "unk_token 'zz' is not in the vocabulary"));
  EXPECT_TRUE(refused(file, "/normalizer", {{"type", "Nmt"}}, "normalizer", "'Nmt' is not supported"));
  EXPECT_TRUE(
      refused(file, "/pre_tokenizer", {{"type", "BertPreTokenizer"}}, "pre_tokenizer", "'BertPreTokenizer' is not"));
  EXPECT_TRUE(refused(file, "/decoder", {{"type", "WordPiece"}}, "decoder", "'WordPiece' is not supported"));
  EXPECT_TRUE(refused(file, "/decoder", nullptr, "without a decoder"));
  EXPECT_TRUE(refused(file, "/post_processor", {{"type", "BertProcessing"}}, "'BertProcessing' is not supported"));
  const json split{{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "Sideways"}};
  EXPECT_TRUE(refused(file, "/pre_tokenizer", split, "'Sideways' is not supported"));
  const json metaspace{{"type", "Metaspace"}, {"replacement", "__"}};
  EXPECT_TRUE(refused(file, "/pre_tokenizer", metaspace, "'replacement' must be one character, got '__'"));
  const json nested{{"type", "Sequence"}, {"normalizers", {{{"type", "Precompiled"}}}}};
  EXPECT_TRUE(refused(file, "/normalizer", nested, "'normalizers'[0]", "'Precompiled' is not supported"));
  EXPECT_TRUE(throws_with<FormatError>([&] { open_json(file, {{"add_eos_token", 1}}); }, "add_eos_token"));
}

TEST(HostileParts, PatternsThatDoNotCompileAreNamed) {
  const json split{{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}};
  EXPECT_TRUE(refused(byte_level_json(), "/pre_tokenizer", split, "pre_tokenizer", "'(a'",
                      "a missing closing parenthesis at byte 2"));
}

TEST(HostileParts, TextsCannotGrowWithoutBound) {
  const json swell{{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(64, 'a')}};
  json file = llama2_json();
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", json::array({swell, swell, swell, swell, swell})}};
  const auto tokenizer = open_json(file);
  EXPECT_TRUE(
      throws_with<FormatError>([&] { tokenizer->encode(std::string(1000, 'a')); }, "normalizer", "out of 1000"));
  file["decoder"] = {{"type", "Sequence"}, {"decoders", json::array({swell, swell, swell, swell, swell})}};
  EXPECT_TRUE(throws_with<FormatError>([&] { open_json(file); }, "decoder makes", "bytes of text out of"));
  file["decoder"] = {{"type", "Sequence"},
                     {"decoders", json::array({{{"type", "Fuse"}}, swell, swell, swell, swell, swell})}};
  EXPECT_TRUE(throws_with<FormatError>([&] { open_json(file)->decode(std::vector<TokenId>(1000, 260)); },
                                       "decoder makes", "out of 1000"));
  EXPECT_TRUE(
      refused(llama2_json(), "/normalizer", {{"type", "Prepend"}, {"prepend", std::string(65, 'a')}}, "65 bytes"));
}

TEST(HostileParts, TemplatesAreChecked) {
  json processor{{"type", "TemplateProcessing"},
                 {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
                 {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}}}}}};
  const auto refused_with = [&](const char* pointer, const json& value, auto... words) {
    json changed = processor;
    changed[json::json_pointer(pointer)] = value;
    return refused(llama2_json(), "/post_processor", changed, words...);
  };
  EXPECT_TRUE(refused_with("/special_tokens/<s>/ids", {259 + 3}, "one id below 262"));
  EXPECT_TRUE(refused_with("/special_tokens/<s>/ids", json::array(), "got '[]'"));
  EXPECT_TRUE(refused_with("/special_tokens", json::object(), "'<s>' is missing"));
  EXPECT_TRUE(refused_with("/single/2", {{"Special", {{"id", "<s>"}}}}, "'single'[2]", "unknown key 'Special'"));
  const json special{{"SpecialToken", {{"id", "<s>"}}}};
  EXPECT_TRUE(refused_with("/single", json::array_t(17, special), "'single'[16]", "more than 16 special tokens"));
  const json twice{{"type", "Sequence"}, {"processors", {processor, processor}}};
  EXPECT_TRUE(refused(llama2_json(), "/post_processor", twice, "another part"));
}

TEST(HostileConfig, IsChecked) {
  const auto refused_config = [](std::string_view config, auto... words) {
    return throws_with<FormatError>([&] { open_text(llama2_json().dump(), config); }, words...);
  };
  EXPECT_TRUE(refused_config("{", "tokenizer_config.json", "not valid JSON"));
  EXPECT_TRUE(refused_config(R"({"eos_token":"zz"})", "eos_token 'zz' is not in the vocabulary"));
  EXPECT_TRUE(refused_config(R"({"eos_token":5})", "'eos_token': expected a text, got 5"));
  EXPECT_TRUE(refused_config(R"({"add_bos_token":true})", "no bos_token"));
  EXPECT_TRUE(
      refused_config(R"({"added_tokens_decoder":{"1":{"content":"<x>"}}})", "added token 1 is '<s>', but '<x>'"));
  EXPECT_TRUE(refused_config(R"({"added_tokens_decoder":{"1x":{"content":"<x>"}}})", "'1x' is not a token id"));
}

TEST(HostileLists, MergeLinesAreChecked) {
  constexpr std::string_view kVocabulary = R"({"a":0,"b":1,"ab":2})";
  EXPECT_TRUE(refused_lists(kVocabulary, "#version: 0.2\na b\nab\n", "merges.txt", "line 3", "got 'ab'"));
  EXPECT_TRUE(refused_lists(kVocabulary, "#version: 0.2\na b c\n", "line 2", "one space between"));
  EXPECT_TRUE(refused_lists(kVocabulary, "#version: 0.2\na x\n", "line 2", "'x' is not in the vocabulary"));
  EXPECT_TRUE(refused_lists(kVocabulary, "a b\r\n", "line 1", "is not in the vocabulary"));
  EXPECT_TRUE(refused_lists("[1]", "", "vocab.json", "must be an object"));
  EXPECT_TRUE(refused_lists(R"({"<|endoftext|>":99999999})", "", "id 99999999 of <|endoftext|> is not below"));
}

}  // namespace
}  // namespace nibble::model

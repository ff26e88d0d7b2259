#include "model/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/error.h"
#include "tests/model/tokenizer/random_text.h"
#include "tests/model/tokenizer/tiny_tokenizer.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using nibble::test::read_file;
using nibble::test::source_path;
using nibble::test::TempDir;
using nibble::test::throws_with;
using nibble::test::write_file;
using test::byte_level_json;
using test::json;
using test::llama2_json;
using test::open_json;
using Ids = std::vector<TokenId>;

// ids found with a plain Python program that applies the merges one after the other
TEST(DemoTokenizer, GivesKnownIds) {
  for (const char* model : {"gpt2-demo", "llama-demo"}) {
    const auto tokenizer = Tokenizer::open(source_path("datasets/demo") / model);
    EXPECT_EQ(tokenizer->encode("The quick brown fox can't jump over 13 lazy dogs.\n\n  “No?”"),
              (Ids{597,  1490, 535,  481, 273, 78,  87,  544, 454, 533, 498, 79,  601,  220, 16,  18,  286,
                   1090, 88,   2037, 82,  13,  198, 198, 220, 220, 158, 222, 250, 1151, 30,  158, 222, 251}));
    EXPECT_EQ(tokenizer->encode(" été\u00A0\u3000x\t\ty"),
              (Ids{220, 127, 102, 83, 127, 102, 126, 254, 159, 222, 222, 87, 197, 197, 88}));
    EXPECT_EQ(tokenizer->encode("a<|endoftext|>a"), (Ids{64, 2047, 64}));
    EXPECT_EQ(tokenizer->vocabulary_size(), 2048u);
    EXPECT_EQ(tokenizer->eos(), TokenId{2047});
    EXPECT_EQ(tokenizer->added_bos(), std::nullopt);
    EXPECT_EQ(tokenizer->byte_length(1490), 6u);  // " quick"
    EXPECT_EQ(tokenizer->byte_length(158), 1u);   // the first byte of “
    EXPECT_EQ(tokenizer->byte_length(2047), 0u);
  }
}

TEST(DemoTokenizer, EnglishTextComesBackAndItsBytesAdd) {
  const auto tokenizer = Tokenizer::open(source_path("datasets/demo/gpt2-demo"));
  const std::string text = read_file(source_path("datasets/demo/eval.txt"));
  const Ids ids = tokenizer->encode(text);
  EXPECT_TRUE(tokenizer->decode(ids) == text);
  std::size_t bytes = 0;
  for (const TokenId id : ids) bytes += tokenizer->byte_length(id);
  EXPECT_EQ(bytes, text.size());
}

TEST(DemoTokenizer, VocabularyFilesAloneMeanTheSame) {
  const TempDir directory;
  for (const std::string name : {"vocab.json", "merges.txt"}) {
    write_file(directory / name, read_file(source_path("datasets/demo/gpt2-demo/" + name)));
  }
  const auto from_json = Tokenizer::open(source_path("datasets/demo/gpt2-demo"));
  const auto from_lists = Tokenizer::open(directory.path());
  const std::string text = read_file(source_path("datasets/demo/eval.txt")).substr(0, 20000) + "<|endoftext|>";
  EXPECT_EQ(from_lists->encode(text), from_json->encode(text));
  EXPECT_EQ(from_lists->fingerprint(), from_json->fingerprint());
  EXPECT_EQ(from_lists->eos(), TokenId{2047});
}

// One vocabulary under the name of each class: Qwen2 cuts "(b" as one word, GPT-2 as two, and composes.
TEST(VocabularyFiles, AreReadByTheRulesOfTheirClass) {
  const TempDir directory;
  write_file(directory / "vocab.json",
             R"({"(": 0, "b": 1, "(b": 2, "e": 3, "\u00cc": 4, "\u0123": 5, "\u00c3": 6, "\u00a9": 7})");
  write_file(directory / "merges.txt", "#version: 0.2\n( b\n");
  const auto ids = [&](const std::string& config) {
    write_file(directory / "tokenizer_config.json", config);
    return Tokenizer::open(directory.path())->encode("(be\xCC\x81");
  };
  const Ids apart{0, 1, 3, 4, 5};  // e and U+0301
  EXPECT_EQ(ids("{}"), apart);
  EXPECT_EQ(ids(R"({"tokenizer_class": "GPT2TokenizerFast"})"), apart);
  EXPECT_EQ(ids(R"({"tokenizer_class": "CodeGenTokenizer"})"), apart);
  EXPECT_EQ(ids(R"({"tokenizer_class": "GPTNeoXTokenizerFast"})"), (Ids{0, 1, 6, 7})) << "composed";
  EXPECT_EQ(ids(R"({"tokenizer_class": "Qwen2Tokenizer"})"), (Ids{2, 6, 7}));
  EXPECT_EQ(ids(R"({"tokenizer_class": "Qwen2TokenizerFast"})"), (Ids{2, 6, 7}));
  EXPECT_TRUE(throws_with<FormatError>([&] { ids(R"({"tokenizer_class": "BlenderbotTokenizer"})"); },
                                       "BlenderbotTokenizer", "Qwen2Tokenizer", "tokenizer.json"));
}

TEST(ByteLevelTokenizer, AnyBytesComeBack) {
  const auto tokenizer = Tokenizer::open(source_path("datasets/demo/gpt2-demo"));
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::string text =
        seed % 2 == 0 ? test::random_bytes(random, random.below(200)) : test::random_text(random, random.below(100));
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
}

TEST(ByteLevelTokenizer, ThreadsMayShareIt) {
  const auto tokenizer = Tokenizer::open(source_path("datasets/demo/gpt2-demo"));
  const std::string text = read_file(source_path("datasets/demo/eval.txt")).substr(0, 30000);
  const Ids expected = tokenizer->encode(text);
  std::vector<Ids> found(4);
  std::vector<std::thread> threads;
  for (Ids& ids : found) threads.emplace_back([&] { ids = tokenizer->encode(text); });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& ids : found) EXPECT_TRUE(ids == expected);
}

TEST(ByteLevelTokenizer, MergesStayInsideWords) {
  const auto tokenizer = open_json(byte_level_json({{"a", "b"}, {"Ġ", "ab"}, {"b", "Ġ"}}));
  EXPECT_EQ(tokenizer->encode("ab ab b"), (Ids{256, 257, ' ', 'b'}));  // "b " of the third merge is never in one word
}

// Hugging Face cuts by another regex library here: ² is no part of a word, the joiner U+200D is one.
TEST(ByteLevelTokenizer, WhitespaceCutsNumbersOfLatin1OffWords) {
  json file = byte_level_json({{"a", "Â"}, {"a", "â"}});
  json spell = file["pre_tokenizer"];
  spell["use_regex"] = false;
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {{{"type", "Whitespace"}}, spell}}};
  EXPECT_EQ(open_json(file)->encode("a² a\u200D"), (Ids{'a', 0xC2, 0xB2, 257, 0x80, 0x8D}));
}

TEST(ByteLevelTokenizer, IgnoreMergesTakesAWholeWordThatIsAToken) {
  json file = byte_level_json({{"a", "b"}});
  file["model"]["vocab"]["Ġabc"] = 257;  // no merge makes it
  EXPECT_EQ(open_json(file)->encode("ab abc"), (Ids{256, ' ', 256, 'c'}));
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(open_json(file)->encode("ab abc"), (Ids{256, 257}));
}

// Each step has a store of words of its own, and calls the next.
TEST(ByteLevelTokenizer, EndlessStepsAreRefused) {
  const auto file_with = [](std::size_t splits) {
    json file = byte_level_json();
    json steps = json::array();
    for (std::size_t i = 0; i < splits; ++i)
      steps.push_back({{"type", "Split"}, {"pattern", {{"String", "x"}}}, {"behavior", "Isolated"}, {"invert", false}});
    steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
    file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps}};
    return file;
  };
  EXPECT_EQ(open_json(file_with(63))->encode("ax"), (Ids{'a', 'x'}));
  EXPECT_TRUE(throws_with<FormatError>([&] { open_json(file_with(64)); }, "pre_tokenizer", "at most 64 steps, got 65"));
}

TEST(ByteLevelTokenizer, Llama3sLayoutIsRead) {
  json file = byte_level_json({{"1", "2"}, {"12", "3"}});
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"},
         {"pattern", {{"Regex", "\\p{N}{1,3}|\\P{N}+"}}},
         {"behavior", "Isolated"},
         {"invert", false}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}}}}};
  file["added_tokens"] = {{{"id", 258}, {"content", "<|begin_of_text|>"}, {"special", true}, {"normalized", false}},
                          {{"id", 259}, {"content", "<|eot_id|>"}, {"special", true}, {"normalized", false}}};
  file["post_processor"] = {
      {"type", "Sequence"},
      {"processors",
       {{{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", false}, {"use_regex", true}},
        {{"type", "TemplateProcessing"},
         {"single",
          {{{"SpecialToken", {{"id", "<|begin_of_text|>"}, {"type_id", 0}}}},
           {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
         {"pair", json::array()},
         {"special_tokens", {{"<|begin_of_text|>", {{"id", "<|begin_of_text|>"}, {"ids", {258}}}}}}}}}};
  const auto tokenizer = open_json(file, {{"eos_token", {{"content", "<|eot_id|>"}}}});
  EXPECT_EQ(tokenizer->encode("x 123123<|eot_id|>"), (Ids{'x', ' ', 257, 257, 259}));
  EXPECT_EQ(tokenizer->added_bos(), TokenId{258});
  EXPECT_EQ(tokenizer->eos(), TokenId{259});
  EXPECT_EQ(tokenizer->vocabulary_size(), 260u);
}

// GLM's converters write files of the first kind, llm-jp's of the last.
TEST(TokenizerJson, SeveralTokensMayGoBeforeATextAndThoseBehindItAreLeftOut) {
  json file = byte_level_json();
  json special_tokens = json::object();
  for (TokenId id = 256; const char* name : {"[gMASK]", "<sop>", "<eop>"}) {
    file["added_tokens"].push_back({{"id", id}, {"content", name}, {"special", true}, {"normalized", false}});
    special_tokens[name] = {{"id", name}, {"ids", {id++}}, {"tokens", {name}}};
  }
  const auto with = [&](std::initializer_list<const char*> names, const json& config = json::object()) {
    json single = json::array();
    for (const std::string name : names) {
      const char* const kind = name == "A" ? "Sequence" : "SpecialToken";
      single.push_back({{kind, {{"id", name}, {"type_id", 0}}}});
    }
    file["post_processor"] = {
        {"type", "TemplateProcessing"}, {"single", single}, {"pair", single}, {"special_tokens", special_tokens}};
    return open_json(file, config);
  };
  EXPECT_EQ(with({"[gMASK]", "<sop>", "A"})->added_prefix(), (Ids{256, 257}));
  EXPECT_EQ(with({"[gMASK]", "<sop>", "A"})->added_bos(), std::nullopt);
  EXPECT_EQ(with({"<sop>", "A"})->added_prefix(), Ids{257});
  EXPECT_EQ(with({"<sop>", "A"})->added_bos(), TokenId{257});
  EXPECT_EQ(with({"A"})->added_prefix(), Ids{});
  for (const bool add_bos : {false, true})  // transformers keeps several as they are
    EXPECT_EQ(with({"[gMASK]", "<sop>", "A"}, {{"add_bos_token", add_bos}})->added_prefix(), (Ids{256, 257}));
  EXPECT_EQ(with({"<sop>", "A", "<eop>"})->added_prefix(), Ids{257});
  EXPECT_EQ(with({"A", "<eop>"})->added_prefix(), Ids{});
  EXPECT_EQ(with({"<sop>", "A"}, {{"add_eos_token", true}})->added_prefix(), Ids{257});
}

TEST(Llama2Tokenizer, SpellsSpacesAndFallsBackToBytes) {
  const auto tokenizer = open_json(llama2_json({{"▁", "a"}, {"a", "b"}}));
  const Ids ids = tokenizer->encode("a ab\né\xFF");
  //                   "▁a"  "▁a" b    \n      é (two bytes)         FF
  EXPECT_EQ(ids, (Ids{262, 262, 261, 3 + 10, 3 + 0xC3, 3 + 0xA9, 3 + 0xFF}));
  EXPECT_EQ(tokenizer->decode(ids), "a ab\né\xFF");
  EXPECT_EQ(tokenizer->byte_length(262), 2u);
  EXPECT_EQ(tokenizer->byte_length(3 + 10), 1u);
  EXPECT_EQ(tokenizer->byte_length(1), 0u);
}

TEST(Llama2Tokenizer, EachPieceBetweenSpecialTokensStartsWithASpace) {
  const auto tokenizer = open_json(llama2_json());
  EXPECT_EQ(tokenizer->encode("<s>a</s>b"), (Ids{1, 259, 260, 2, 259, 261}));
  EXPECT_EQ(tokenizer->decode(Ids{1, 259, 260, 2}), "<s> a</s>");
  EXPECT_TRUE(tokenizer->encode("").empty());
  EXPECT_EQ(tokenizer->decode({}), "");
}

// Ids as Hugging Face's tokenizers gives them: "first" is where the text's own first character is.
TEST(Metaspace, FirstIsWhatWasFirstBeforeNormalizing) {
  const json metaspace{{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", false}};
  const auto encode = [&](const json& normalizer, const std::string& text, const json& before = nullptr) {
    json file = llama2_json();
    file["normalizer"] = normalizer;
    file["pre_tokenizer"] = metaspace;
    if (!before.is_null()) file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {before, metaspace}}};
    return open_json(file)->encode(text);
  };
  const auto replace = [](const char* kind, const char* pattern, const char* content) {
    return json{{"type", "Replace"}, {"pattern", {{kind, pattern}}}, {"content", content}};
  };
  const Ids spaced{259, 260}, bare{260};  // "▁a" and "a"
  EXPECT_EQ(encode(nullptr, "a"), spaced);
  const json strip{{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}};
  EXPECT_EQ(encode(strip, "a"), spaced);
  EXPECT_EQ(encode(strip, " a"), bare);
  EXPECT_EQ(encode({{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}}, "a "), spaced);
  EXPECT_EQ(encode({{"type", "StripAccents"}}, "\u0301a"), bare);
  EXPECT_EQ(encode({{"type", "StripAccents"}}, "a\u0301"), spaced);
  EXPECT_EQ(encode({{"type", "Lowercase"}}, "A"), spaced);
  EXPECT_EQ(encode({{"type", "NFKC"}}, "ａ"), spaced);
  for (const json& removed : {replace("String", "x", ""), replace("Regex", "x+", "")}) {
    EXPECT_EQ(encode(removed, "xxa"), bare);
    EXPECT_EQ(encode(removed, "axx"), spaced);
    EXPECT_EQ(encode(removed, "x</s>a"), (Ids{2, 260}));
  }
  for (const char* kind : {"String", "Regex"}) {  // what a match becomes stands for its last character
    EXPECT_EQ(encode(replace(kind, "é", "a"), "é"), spaced);
    EXPECT_EQ(encode(replace(kind, "xy", "a"), "xy"), bare);
  }
  const auto after_strip = [&](const json& next) { return json{{"type", "Sequence"}, {"normalizers", {strip, next}}}; };
  EXPECT_EQ(encode(after_strip({{"type", "Prepend"}, {"prepend", "b"}}), "a"), (Ids{259, 261, 260}));
  EXPECT_EQ(encode(after_strip({{"type", "Prepend"}, {"prepend", "b"}}), " a"), (Ids{261, 260}));
  // What another pre-tokenizer drops counts too.
  EXPECT_EQ(encode(nullptr, " a a", {{"type", "WhitespaceSplit"}}), (Ids{260, 260}));
  EXPECT_EQ(encode(nullptr, "a a", {{"type", "WhitespaceSplit"}}), (Ids{259, 260, 260}));
}

TEST(Llama2Tokenizer, UnknownCharactersAreFusedIfTheFileSaysSo) {
  json file = llama2_json();
  file["model"]["byte_fallback"] = false;
  EXPECT_EQ(open_json(file)->encode("éça\xFFö"), (Ids{259, 0, 260, 0}));
  file["model"]["fuse_unk"] = false;
  EXPECT_EQ(open_json(file)->encode("éça\xFFö"), (Ids{259, 0, 0, 260, 0, 0}));
  file["model"]["unk_token"] = nullptr;
  EXPECT_EQ(open_json(file)->encode("éça\xFFö"), (Ids{259, 260}));
}

TEST(Llama2Tokenizer, MetaspaceInPlaceOfANormalizerMeansTheSame) {
  json file = llama2_json({{"▁", "a"}});
  const auto by_normalizer = open_json(file);
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}, {"split", false}};
  const auto by_metaspace = open_json(file);
  for (const char* text : {"a", "a a b", "a<s>b a"}) EXPECT_EQ(by_metaspace->encode(text), by_normalizer->encode(text));
  file["decoder"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}};
  EXPECT_EQ(open_json(file)->decode(by_metaspace->encode("a a b")), "a a b");
}

TEST(Llama2Tokenizer, TheFirstSchemePutsASpaceOnlyBeforeTheWholeText) {
  json file = llama2_json({{"▁", "a"}});
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", false}};
  EXPECT_EQ(open_json(file)->encode("a<s>a"), (Ids{262, 1, 260}));
  file["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "b"}}}, {"content", "a"}};
  file["added_tokens"].push_back({{"id", 263}, {"content", "<x>"}, {"normalized", true}});
  EXPECT_EQ(open_json(file)->encode("b<x>b"), (Ids{262, 263, 260}));
}

TEST(AddedTokensOfATokenizer, NormalizedOnesAreFoundInTheNormalizedText) {
  json file = llama2_json();
  file["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "b"}}}, {"content", "a"}};
  file["added_tokens"].push_back({{"id", 262}, {"content", "ab"}, {"normalized", true}});
  file["added_tokens"].push_back({{"id", 263}, {"content", "bb"}, {"normalized", false}});
  EXPECT_EQ(open_json(file)->encode("ba"), Ids{262});  // "aa", as "ab" is
  EXPECT_EQ(open_json(file)->encode("bb"), Ids{263});
}

TEST(TokenizerConfig, AddBosTokenDecides) {
  json file = llama2_json();
  EXPECT_EQ(open_json(file)->added_bos(), std::nullopt);
  EXPECT_EQ(open_json(file, {{"add_bos_token", true}, {"bos_token", "<s>"}})->added_bos(), TokenId{1});
  EXPECT_EQ(open_json(file, {{"add_bos_token", false}, {"bos_token", "<s>"}})->added_bos(), std::nullopt);
}

TEST(TokenizerConfig, AddsItsAddedTokens) {
  const json config{{"added_tokens_decoder",
                     {{"256", {{"content", "<pad>"}, {"special", true}, {"normalized", false}}},
                      {"257", {{"content", "word"}, {"special", false}, {"normalized", false}}}}}};
  const auto tokenizer = open_json(byte_level_json(), config);
  EXPECT_EQ(tokenizer->encode("word<pad>"), (Ids{257, 256}));
  EXPECT_EQ(tokenizer->byte_length(256), 0u);
  EXPECT_EQ(tokenizer->byte_length(257), 4u);
}

// OPT's files have no list of added tokens.
TEST(TokenizerConfig, NamedTokensOfVocabularyFilesAreFoundInTexts) {
  const TempDir directory;
  json vocabulary = byte_level_json()["model"]["vocab"];
  for (const char* token : {"</s>", "<pad>", "<a>", "<b>"}) vocabulary.emplace(token, vocabulary.size());
  write_file(directory / "vocab.json", vocabulary.dump());
  write_file(directory / "merges.txt", "#version: 0.2\n");
  const auto ids = [&](const json& config, const json& map) {
    write_file(directory / "tokenizer_config.json", config.dump());
    write_file(directory / "special_tokens_map.json", map.dump());
    return Tokenizer::open(directory.path())->encode("a</s><pad>b");
  };
  const json pad = {{"__type", "AddedToken"}, {"content", "<pad>"}, {"lstrip", false}};
  EXPECT_EQ(ids({{"eos_token", "</s>"}, {"pad_token", pad}}, json::object()), (Ids{'a', 256, 257, 'b'}));
  EXPECT_EQ(ids(json::object(), {{"eos_token", "</s>"}, {"additional_special_tokens", {"<pad>", "<absent>"}}}),
            (Ids{'a', 256, 257, 'b'}));
  EXPECT_EQ(ids({{"eos_token", "</s>"}}, json::object()), (Ids{'a', 256, '<', 'p', 'a', 'd', '>', 'b'}));
  EXPECT_EQ(ids({{"eos_token", "</s>"}}, {{"additional_special_tokens", {nullptr, pad, nullptr}}}),
            (Ids{'a', 256, 257, 'b'}));
  EXPECT_TRUE(throws_with<FormatError>(
      [&] {
        ids(json::object(), {{"additional_special_tokens", "<pad>"}});
      },
      "additional_special_tokens", "list"));
  EXPECT_TRUE(throws_with<FormatError>(
      [&] {
        ids(json::object(), {{"pad_token", 3}});
      },
      "special_tokens_map.json", "pad_token"));
}

// As transformers does, which adds them once more.
TEST(TokenizerConfig, SettingsOfItsAddedTokensGoBeforeThoseOfTokenizerJson) {
  json file = byte_level_json();
  file["added_tokens"] = {{{"id", 256}, {"content", "<pad>"}, {"special", true}, {"normalized", false}}};
  EXPECT_EQ(open_json(file)->encode("a <pad> b"), (Ids{'a', ' ', 256, ' ', 'b'}));
  const auto with = [&](const json& settings) {
    json token = {{"content", "<pad>"}, {"special", false}, {"normalized", false}};
    token.update(settings);
    return open_json(file, {{"added_tokens_decoder", {{"256", token}}}});
  };
  EXPECT_EQ(with({{"rstrip", true}})->encode("a <pad> b"), (Ids{'a', ' ', 256, 'b'}));
  EXPECT_EQ(with({{"lstrip", true}})->encode("a <pad> b"), (Ids{'a', 256, ' ', 'b'}));
  EXPECT_EQ(with(json::object())->byte_length(256), 0u);  // special in one of the two is special
}

// A special token is looked for in the text as it is, another in the normalised one.
TEST(TokenizerConfig, AddedTokensAreNormalizedUnlessTheyAreSpecial) {
  json file = byte_level_json();
  file["normalizer"] = {{"type", "Prepend"}, {"prepend", "_"}};
  file["added_tokens"] = {{{"id", 256}, {"content", "<pad>"}, {"special", true}, {"normalized", false}}};
  const auto ids = [&](const json& token) {
    return open_json(file, {{"added_tokens_decoder", {{"256", token}}}})->encode("a<pad>b");
  };
  const Ids found{'_', 'a', 256, '_', 'b'};
  EXPECT_EQ(ids({{"content", "<pad>"}, {"special", true}}), found);
  EXPECT_EQ(ids({{"content", "<pad>"}, {"special", false}, {"normalized", false}}), found);
  EXPECT_EQ(ids({{"content", "<pad>"}, {"special", false}}),  // "_<pad>" is looked for
            (Ids{'_', 'a', '<', 'p', 'a', 'd', '>', 'b'}));
}

// As transformers does: those that the vocabulary has become added tokens.
TEST(TokenizerConfig, NamedTokensOfTokenizerJsonAreFoundInTexts) {
  const TempDir directory;
  json file = byte_level_json();
  for (const char* token : {"</s>", "<pad>"}) file["model"]["vocab"].emplace(token, file["model"]["vocab"].size());
  write_file(directory / "tokenizer.json", file.dump());
  const auto ids = [&](const json& config, const json& map) {
    write_file(directory / "tokenizer_config.json", config.dump());
    write_file(directory / "special_tokens_map.json", map.dump());
    return Tokenizer::open(directory.path())->encode("</s><pad>");
  };
  const Ids none{'<', '/', 's', '>', '<', 'p', 'a', 'd', '>'}, end{256, '<', 'p', 'a', 'd', '>'}, both{256, 257};
  EXPECT_EQ(ids(json::object(), json::object()), none);
  EXPECT_EQ(ids({{"eos_token", "</s>"}, {"mask_token", "<mask>"}}, json::object()), end);
  EXPECT_EQ(ids({{"extra_special_tokens", {"</s>", "<pad>"}}}, json::object()), both);
  EXPECT_EQ(ids({{"image_token", "<pad>"}, {"end_token", {{"content", "</s>"}}}, {"no_token", 3}}, json::object()),
            both);
  const json strips = {{"content", "<pad>"}, {"lstrip", true}, {"rstrip", true}};
  write_file(directory / "tokenizer_config.json", json{{"pad_token", strips}}.dump());
  EXPECT_EQ(Tokenizer::open(directory.path())->encode("a <pad> b"), (Ids{'a', 257, 'b'}));
  EXPECT_EQ(ids({{"extra_special_tokens", {{"image_token", "<pad>"}}}}, {{"eos_token", "</s>"}}), both);
  const json listed = {{"256", {{"content", "</s>"}, {"special", true}}}};
  EXPECT_EQ(ids({{"added_tokens_decoder", listed}}, {{"pad_token", "<pad>"}}), end);  // the map is not looked at
  EXPECT_TRUE(throws_with<FormatError>(
      [&] {
        ids({{"extra_special_tokens", "<pad>"}}, json::object());
      },
      "extra_special_tokens", "list"));
}

TEST(TokenizerConfig, SpecialTokensThatAreNotLookedForAreRefused) {
  EXPECT_TRUE(throws_with<FormatError>(
      [&] {
        open_json(byte_level_json(), {{"split_special_tokens", true}});
      },
      "split_special_tokens"));
}

TEST(Decode, RefusesIdsOutsideTheVocabulary) {
  const auto tokenizer = open_json(byte_level_json());
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { tokenizer->decode(Ids{65, 256}); }, "id 256 at position 1"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { tokenizer->byte_length(256); }, "vocabulary size 256"));
}

// As with Hugging Face's tokenizers 0.23, which gave these texts: an id of no token stands for nothing, and what comes
// behind it may still be the first.
TEST(IdsOfNoToken, AreDecodedToNothing) {
  json file = llama2_json({{"▁", "a"}});
  const TokenId space = 259, b = 261, space_a = 262, hole = 263, last = 264;
  file["model"]["vocab"]["<|end|>"] = last;
  file["added_tokens"].push_back({{"id", last}, {"content", "<|end|>"}, {"special", true}, {"normalized", false}});
  const auto check_decoding = [&](const Tokenizer& tokenizer) {
    EXPECT_EQ(tokenizer.vocabulary_size(), 265u);
    EXPECT_EQ(tokenizer.encode("a<|end|>"), (Ids{space_a, last}));
    EXPECT_EQ(tokenizer.byte_length(hole), 0u);
    EXPECT_EQ(tokenizer.decode(Ids{hole, space_a, space, b, hole, space_a}), "a b a");
    EXPECT_EQ(tokenizer.decode(Ids{hole}), "");
  };
  check_decoding(*open_json(file));
  file["decoder"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}};
  check_decoding(*open_json(file));
  const std::string fingerprint = open_json(file)->fingerprint();
  file["model"]["vocab"][""] = hole;
  EXPECT_NE(open_json(file)->fingerprint(), fingerprint);
}

TEST(Fingerprint, DependsOnWhatDecidesTheIds) {
  const json base = byte_level_json({{"a", "b"}, {"b", "c"}});
  const std::string expected = open_json(base)->fingerprint();
  EXPECT_EQ(open_json(base)->fingerprint(), expected);
  const auto changed = [&](const char* pointer, const json& value) {
    json file = base;
    file[json::json_pointer(pointer)] = value;
    return open_json(file)->fingerprint();
  };
  EXPECT_EQ(changed("/model/merges/0", "a b"), expected);  // only another spelling
  EXPECT_NE(changed("/model/merges/0", {"b", "c"}), expected);
  EXPECT_NE(changed("/model/ignore_merges", true), expected);
  EXPECT_NE(changed("/pre_tokenizer/add_prefix_space", true), expected);
  EXPECT_NE(changed("/pre_tokenizer/use_regex", false), expected);
  EXPECT_NE(changed("/added_tokens/0", {{"id", 258}, {"content", "<x>"}}), expected);
  EXPECT_NE(changed("/normalizer", {{"type", "Prepend"}, {"prepend", "x"}}), expected);
}

}  // namespace
}  // namespace nibble::model

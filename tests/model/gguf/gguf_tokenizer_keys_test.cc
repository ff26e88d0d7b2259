#include "model/gguf/gguf_tokenizer_keys.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "core/text/json.h"
#include "model/gguf/gguf_tokenizer.h"
#include "model/tokenizer/files/vocabulary.h"
#include "model/tokenizer/open_tokenizer.h"
#include "model/tokenizer/pipeline.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using test::shared_path;
using test::throws_with;

GgufMetadata metadata_of(const std::filesystem::path& directory, std::size_t more = 0) {
  const TokenizerSpec spec = read_tokenizer(directory);
  GgufMetadata metadata;
  add_gguf_tokenizer(metadata, spec,
                     {.vocabulary = spec.tokens.size() + more, .bos = {}, .eos = {}, .chat_templates = {}});
  return metadata;
}

struct Golden {
  const char* name;
  const char* pre;      ///< tokenizer.ggml.pre; of SentencePiece kinds "default"
  const char* refusal;  ///< what is refused instead; "differently": only the check of ids finds it
};

class GgufTokenizerKeys : public testing::TestWithParam<Golden> {};
INSTANTIATE_TEST_SUITE_P(
    All, GgufTokenizerKeys,
    testing::Values(Golden{"bloom", "", "its way of cutting"}, Golden{"cohere", "command-r", ""},
                    Golden{"deepseek-coder", "deepseek-coder", ""}, Golden{"deepseek-v3", "deepseek-v3", ""},
                    Golden{"falcon", "", "its way of cutting"}, Golden{"gemma", "default", "differently"},
                    Golden{"gpt-neox", "gpt-2", ""}, Golden{"gpt-oss", "gpt-4o", ""}, Golden{"gpt2", "gpt-2", ""},
                    Golden{"gpt2-prefix-space", "", "a space before texts"}, Golden{"llama2", "default", ""},
                    Golden{"llama3", "llama-bpe", ""}, Golden{"metaspace-always", "default", ""},
                    Golden{"mistral-metaspace", "default", ""}, Golden{"opt", "gpt-2", ""},
                    Golden{"phi2-added", "gpt-2", ""}, Golden{"phi3", "default", ""}, Golden{"qwen2", "qwen2", ""},
                    Golden{"starcoder", "starcoder", ""}, Golden{"unigram", "", "a Unigram vocabulary"}),
    [](const auto& instance) {
      std::string name = instance.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST_P(GgufTokenizerKeys, DescribeTheSameTokenizer) {
  const Golden golden = GetParam();
  const std::string folder = std::string("golden/tokenizers/") + golden.name;
  NIBBLE_NEEDS_SHARED(folder + "/tokenizer.json");
  const std::filesystem::path directory = shared_path(folder);
  if (golden.refusal == std::string_view("differently")) {  // a token of two characters that no merge makes
    EXPECT_TRUE(throws_with<InvalidArgument>(
        [&] { check_gguf_tokenizer(metadata_of(directory), *Tokenizer::open(directory)); }, golden.refusal));
    return;
  }
  if (*golden.refusal != 0) {
    EXPECT_TRUE(throws_with<InvalidArgument>([&] { metadata_of(directory); }, "GGUF has no word for", golden.refusal));
    return;
  }
  const GgufMetadata metadata = metadata_of(directory);
  EXPECT_EQ(*metadata.text("tokenizer.ggml.pre"), golden.pre);
  const auto own = Tokenizer::open(directory), written = make_gguf_tokenizer(metadata);
  EXPECT_NO_THROW(check_gguf_tokenizer(metadata, *own));
  EXPECT_EQ(written->vocabulary_size(), own->vocabulary_size());
  // What may differ: texts that are not in NFC; after control tokens that take spaces along; a space put before texts
  // that begin with one (llama.cpp does, Metaspace does not) and, where only the first text gets one, behind tokens.
  const bool sentencepiece = golden.pre == std::string_view("default");
  std::size_t equal = 0, texts = 0;
  for (const auto& entry : nlohmann::json::parse(test::read_file(directory / "expected.json"))) {
    const std::string text = entry["text"];
    if (sentencepiece && (text.starts_with(" ") || text.starts_with("\u2581") || text.find('<') != std::string::npos))
      continue;
    ++texts;
    equal += static_cast<std::size_t>(written->encode(text) == own->encode(text));
  }
  EXPECT_GE(texts, 20u);
  EXPECT_GE(static_cast<double>(equal), 0.95 * static_cast<double>(texts)) << equal << " of " << texts;
}

TEST(GgufTokenizerKeysOf, ABrokenPromiseIsFound) {
  NIBBLE_NEEDS_SHARED("golden/tokenizers/gpt2/tokenizer.json");
  const GgufMetadata metadata = metadata_of(shared_path("golden/tokenizers/gpt2"));
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [&] { check_gguf_tokenizer(metadata, *Tokenizer::open(shared_path("golden/tokenizers/llama3"))); },
      "cuts texts differently", "expected token"));
}

TEST(GgufTokenizerKeysOf, FillsUpToTheVocabulary) {
  NIBBLE_NEEDS_SHARED("golden/tokenizers/gpt2/tokenizer.json");
  const std::filesystem::path directory = shared_path("golden/tokenizers/gpt2");
  const TokenizerSpec spec = read_tokenizer(directory);
  const std::size_t count = spec.tokens.size();
  const GgufMetadata metadata = metadata_of(directory, 2);
  const GgufArray& tokens = *metadata.array("tokenizer.ggml.tokens", GgufType::kString);
  EXPECT_EQ(tokens.size, count + 2);
  EXPECT_EQ(tokens.text(count + 1), "[PAD" + std::to_string(count + 1) + "]");
  EXPECT_EQ(metadata.array_of_integers("tokenizer.ggml.token_type")->integer(count), 5);
  GgufMetadata small;
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [&] { add_gguf_tokenizer(small, spec, {.vocabulary = count - 1, .bos = {}, .eos = {}, .chat_templates = {}}); },
      "tokens for a model with a vocabulary of"));
}

TEST(GgufTokenizerKeysOf, IdsOfNoTokenArePaddingToo) {
  TokenizerSpec spec = read_tokenizer(test::source_path("datasets/demo/gpt2-demo"));
  const std::size_t hole = spec.tokens.size();
  spec.kinds.assign(hole + 2, TokenizerSpec::PieceKind::kNormal);
  spec.kinds[hole] = TokenizerSpec::PieceKind::kUnused;
  spec.tokens.insert(spec.tokens.end(), {"", "<|behind|>"});
  spec.added.push_back({.id = static_cast<TokenId>(hole + 1), .content = "<|behind|>", .special = true});
  GgufMetadata metadata;
  add_gguf_tokenizer(metadata, spec, {.vocabulary = hole + 2, .bos = {}, .eos = {}, .chat_templates = {}});
  EXPECT_EQ(metadata.array("tokenizer.ggml.tokens", GgufType::kString)->text(hole),
            "[PAD" + std::to_string(hole) + "]");
  EXPECT_EQ(metadata.array_of_integers("tokenizer.ggml.token_type")->integer(hole), 5);
  EXPECT_EQ(metadata.array_of_integers("tokenizer.ggml.token_type")->integer(hole + 1), 3);
  // Without a row for the hole it is left out with the added token behind it.
  GgufMetadata small;
  const GgufTokenizerFacts facts{.vocabulary = hole, .bos = {}, .eos = 2, .chat_templates = {}};
  add_gguf_tokenizer(small, spec, facts);
  EXPECT_EQ(small.array("tokenizer.ggml.tokens", GgufType::kString)->size, hole);
  EXPECT_THAT(gguf_tokenizer_notes(spec, facts),
              testing::ElementsAre(testing::HasSubstr("<|behind|>') on are left out, 1 in all")));
}

/// A golden tokenizer.json with other contents.
class Edited {
 public:
  explicit Edited(const std::string& name)
      : json(nlohmann::json::parse(test::read_file(shared_path("golden/tokenizers/" + name + "/tokenizer.json")))) {}
  const std::filesystem::path& write() const {
    test::write_file(directory_ / "tokenizer.json", json.dump());
    return directory_.path();
  }
  void add_token(TokenId id, const std::string& content) {
    json["added_tokens"].push_back({{"id", id},
                                    {"content", content},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", true}});
  }

  nlohmann::json json;

 private:
  test::TempDir directory_;
};

std::int64_t kind_of(const GgufMetadata& metadata, std::size_t id) {
  return metadata.array_of_integers("tokenizer.ggml.token_type")->integer(id).value();
}
std::string_view token_of(const GgufMetadata& metadata, std::size_t id) {
  return metadata.array("tokenizer.ggml.tokens", GgufType::kString)->text(id);
}

// Tokenizers that were converted from tiktoken's files say so whatever their merges make.
TEST(GgufTokenizerKeysOf, IgnoredMergesAreLeftOutWhereTheyMakeTheSame) {
  NIBBLE_NEEDS_SHARED("golden/tokenizers/gpt-oss/tokenizer.json");
  Edited oss("gpt-oss");
  oss.json["model"]["ignore_merges"] = true;
  EXPECT_EQ(metadata_of(oss.write()).need_text("tokenizer.ggml.pre"), "gpt-4o");
  nlohmann::json& vocabulary = oss.json["model"]["vocab"];
  const std::size_t next = read_tokenizer(oss.write()).tokens.size();
  vocabulary["qxqxq"] = next;
  EXPECT_TRUE(
      throws_with<InvalidArgument>([&] { metadata_of(oss.write()); }, "not made by merges", "ignore_merges: true"));
}

// Gemma's runs of spaces. llama.cpp prints user-defined tokens as they are spelled, normal ones with spaces for
// '\u2581'.
TEST(GgufTokenizerKeysOf, RunsOfSpacesThatAreMergedAreNormalTokens) {
  NIBBLE_NEEDS_SHARED("golden/tokenizers/gemma/tokenizer.json");
  Edited gemma("gemma");  // has both as added tokens that are not special, and no merges that make them
  gemma.json["model"]["vocab"]["\n\n"] = 1600;
  gemma.json["model"]["vocab"]["\u2581\u2581"] = 1601;
  auto& merges = gemma.json["model"]["merges"];
  merges.insert(merges.begin(), {{"\n", "\n"}, {"\u2581", "\u2581"}});
  const std::filesystem::path& directory = gemma.write();
  const GgufMetadata metadata = metadata_of(directory);
  EXPECT_EQ(token_of(metadata, 1601), "\u2581\u2581");
  EXPECT_EQ(kind_of(metadata, 1601), 1);
  EXPECT_EQ(kind_of(metadata, 1600), 4) << "has no space";
  const auto own = Tokenizer::open(directory), written = make_gguf_tokenizer(metadata);
  EXPECT_NO_THROW(check_gguf_tokenizer(metadata, *own));
  for (const char* const text : {"def f  x\n\ny", "a   b    c     d", "  in front", "behind  ", "\u2581\u2581"}) {
    EXPECT_EQ(written->encode(text), own->encode(text)) << text;
    EXPECT_EQ(written->decode(written->encode(text)), own->decode(own->encode(text))) << text;
  }
}

// What SentencePiece looks for before it merges, llama.cpp looks for in texts whose spaces are still spaces.
TEST(GgufTokenizerKeysOf, UserDefinedPiecesAreSpelledWithSpaces) {
  for (const bool prefix : {false, true}) {
    SCOPED_TRACE(prefix ? "with a space before the text" : "without");
    TokenizerSpec spec;
    spec.where = "tokenizer.model";
    spec.model = TokenizerSpec::Model::kScoredBpe;
    using Kind = TokenizerSpec::PieceKind;
    set_tokens(
        spec, {"<unk>", "<0x0A>", "\u2581", "a", "b", "\u2581\u2581", "\u2581b"},
        {Kind::kUnknown, Kind::kByte, Kind::kNormal, Kind::kNormal, Kind::kNormal, Kind::kUserDefined, Kind::kNormal});
    spec.scores = {0, 0, -3, -4, -5, 0, -1};
    spec.byte_fallback = true;
    spec.unknown = 0;
    if (prefix) spec.normalizer.emplace_back(PrependStep{.text = "\u2581"});
    spec.normalizer.emplace_back(ReplaceStep{.pattern = " ", .to = "\u2581"});
    spec.decoder = {ReplaceStep{.pattern = "\u2581", .to = " "}, ByteFallbackStep{}, FuseStep{}};
    if (prefix) spec.decoder.emplace_back(StripStep{.content = " ", .start = 1});
    GgufMetadata metadata;
    add_gguf_tokenizer(metadata, spec, {.vocabulary = 7, .bos = {}, .eos = {}, .chat_templates = {}});
    // With a space before the text llama.cpp puts one behind each user-defined piece too: merges make these then.
    EXPECT_EQ(token_of(metadata, 5), prefix ? "\u2581\u2581" : "  ");
    EXPECT_EQ(kind_of(metadata, 5), prefix ? 1 : 4);
    EXPECT_EQ(token_of(metadata, 6), "\u2581b");
    const auto own = make_tokenizer(std::move(spec)), written = make_gguf_tokenizer(metadata);
    for (const char* const text : {"a  b", "a   b", "    ", "a b"}) {
      EXPECT_EQ(written->encode(text), own->encode(text)) << text;
      EXPECT_EQ(written->decode(written->encode(text)), text);
    }
  }
}

// What a normaliser makes of a text is what normalised tokens are looked for in, with what it makes of them.
TEST(GgufTokenizerKeysOf, AddedTokensAreSpelledAsTextsHaveThem) {
  for (const auto& [name, escaped] : {std::pair{"gemma", " end of"},    // its normaliser spells spaces, and that is all
                                      {"llama2", "\u2581end\u2581of"},  // puts one in front of the token too
                                      {"mistral-metaspace", "\u2581end\u2581of"}}) {  // has none
    SCOPED_TRACE(name);
    NIBBLE_NEEDS_SHARED(std::string("golden/tokenizers/") + name + "/tokenizer.json");
    Edited edited(name);
    edited.add_token(1602, "<tool\u2581call>");
    edited.add_token(1603, "\u2581end\u2581of");
    auto& added = edited.json["added_tokens"];
    for (auto& token : added)
      if (token["id"] >= 1602) token["special"] = false;
    added.back()["normalized"] = true;
    for (const TokenId filler : {1600u, 1601u})
      if (name != std::string_view("gemma")) edited.add_token(filler, fmt::format("<filler{}>", filler));
    const GgufMetadata metadata = metadata_of(edited.write());
    EXPECT_EQ(token_of(metadata, 1602), "<tool\u2581call>");
    EXPECT_EQ(token_of(metadata, 1603), escaped);
    for (const std::size_t id : {1602u, 1603u}) EXPECT_EQ(kind_of(metadata, id), 4);
    const auto own = Tokenizer::open(edited.write()), written = make_gguf_tokenizer(metadata);
    for (const char* const text : {"the end of it", "a<tool\u2581call>"})
      EXPECT_EQ(written->encode(text), own->encode(text)) << text;
  }
}

// Gemma 3's <image_soft_token>, which its text model has no row for.
TEST(GgufTokenizerKeysOf, AddedTokensWithoutARowAreLeftOut) {
  NIBBLE_NEEDS_SHARED("golden/tokenizers/gpt2/tokenizer.json");
  Edited gpt2("gpt2");
  gpt2.add_token(1600, "<image>");
  gpt2.add_token(1601, "<sound>");
  const TokenizerSpec spec = read_tokenizer(gpt2.write());
  const GgufTokenizerFacts facts{.vocabulary = 1600, .bos = {}, .eos = 1601, .chat_templates = {}};
  GgufMetadata metadata;
  add_gguf_tokenizer(metadata, spec, facts);
  EXPECT_EQ(metadata.array("tokenizer.ggml.tokens", GgufType::kString)->size, 1600u);
  EXPECT_EQ(metadata.array_of_integers("tokenizer.ggml.token_type")->size, 1600u);
  EXPECT_EQ(metadata.find("tokenizer.ggml.eos_token_id"), nullptr);
  EXPECT_NO_THROW(check_gguf_tokenizer(metadata, *Tokenizer::open(gpt2.write())));
  EXPECT_THAT(gguf_tokenizer_notes(spec, facts),
              testing::ElementsAre(testing::AllOf(testing::HasSubstr("2 in all"), testing::HasSubstr("<image>"),
                                                  testing::HasSubstr("1600 rows")),
                                   testing::HasSubstr("takes token 11 for it")));
  const GgufTokenizerFacts exact{.vocabulary = 1602, .bos = {}, .eos = 1601, .chat_templates = {}};
  EXPECT_THAT(gguf_tokenizer_notes(spec, exact), testing::IsEmpty());
}

// GLM's [gMASK]<sop>.
TEST(GgufTokenizerKeysOf, SayWhereSeveralTokensGoBeforeAText) {
  NIBBLE_NEEDS_SHARED("golden/tokenizers/gpt2/tokenizer.json");
  TokenizerSpec spec = read_tokenizer(shared_path("golden/tokenizers/gpt2"));
  const GgufTokenizerFacts facts{.vocabulary = spec.tokens.size(), .bos = {}, .eos = 2, .chat_templates = {}};
  EXPECT_THAT(gguf_tokenizer_notes(spec, facts), testing::IsEmpty());
  spec.added_prefix = {1, 2};
  EXPECT_THAT(gguf_tokenizer_notes(spec, facts), testing::ElementsAre(testing::HasSubstr("none of the 2")));
}

// llama.cpp has a default of its own for each kind of vocabulary.
TEST(GgufTokenizerKeysOf, SayWhereNoEndIsNamed) {
  NIBBLE_NEEDS_SHARED("golden/tokenizers/gpt2/tokenizer.json");
  for (const auto& [name, id] : {std::pair("gpt2", 11), std::pair("llama2", 2)}) {
    TokenizerSpec spec = read_tokenizer(shared_path(std::string("golden/tokenizers/") + name));
    spec.eos.reset();
    const auto notes = [&](std::optional<TokenId> eos) {
      return gguf_tokenizer_notes(spec,
                                  {.vocabulary = spec.tokens.size(), .bos = {}, .eos = eos, .chat_templates = {}});
    };
    EXPECT_THAT(notes({}), testing::ElementsAre(testing::HasSubstr(fmt::format("takes token {} for it", id))));
    EXPECT_THAT(notes(2), testing::IsEmpty());
  }
}

TEST(GgufTokenizerKeysOf, SayWhichAddedTokensAreChoosy) {
  NIBBLE_NEEDS_SHARED("golden/tokenizers/gpt2/tokenizer.json");
  const auto notes_of = [](bool AddedToken::*flag) {
    Edited gpt2("gpt2");
    gpt2.add_token(1600, "<image>");
    gpt2.add_token(1601, "<sound>");
    TokenizerSpec spec = read_tokenizer(gpt2.write());
    for (AddedToken& token : spec.added)
      if (token.id >= 1600) token.*flag = true;
    std::vector<std::string> notes;
    for (const std::size_t rows : {1602u, 1601u, 1600u})
      for (std::string& note :
           gguf_tokenizer_notes(spec, {.vocabulary = rows, .bos = {}, .eos = 2, .chat_templates = {}}))
        if (note.find("single_word") != std::string::npos) notes.push_back(std::move(note));
    return notes;
  };
  for (const auto flag : {&AddedToken::left_strip, &AddedToken::right_strip, &AddedToken::single_word})
    EXPECT_THAT(notes_of(flag), testing::ElementsAre(testing::HasSubstr("2 added tokens ('<image>', …)"),
                                                     testing::HasSubstr("1 added token ('<image>')")));
  EXPECT_THAT(notes_of(&AddedToken::special), testing::IsEmpty());
}

TEST(GgufTokenizerKeysOf, OrdinaryTokensWithoutARowAreRefused) {
  NIBBLE_NEEDS_SHARED("golden/tokenizers/gpt2/tokenizer.json");
  Edited gpt2("gpt2");
  gpt2.add_token(1600, "<image>");
  const TokenizerSpec spec = read_tokenizer(gpt2.write());
  GgufMetadata metadata;
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [&] { add_gguf_tokenizer(metadata, spec, {.vocabulary = 1599, .bos = {}, .eos = {}, .chat_templates = {}}); },
      "1601 tokens for a model with a vocabulary of 1599", "token 1599"));
}

TEST(GgufTokenizerKeysOf, FurtherEndsHaveKeysOfTheirOwn) {
  NIBBLE_NEEDS_SHARED("golden/tokenizers/gpt2/tokenizer.json");
  const TokenizerSpec spec = read_tokenizer(shared_path("golden/tokenizers/gpt2"));
  const auto ids = [&](std::vector<TokenId> stops) {
    GgufMetadata metadata;
    add_gguf_tokenizer(
        metadata, spec,
        {.vocabulary = 1600, .bos = {}, .eos = 2, .stop_tokens = std::move(stops), .chat_templates = {}});
    std::vector<std::optional<std::uint64_t>> found;
    for (const char* const name : {"eos", "eot", "eom"})
      found.push_back(metadata.natural(fmt::format("tokenizer.ggml.{}_token_id", name)));
    return found;
  };
  using testing::ElementsAre;
  constexpr auto none = std::nullopt;
  EXPECT_THAT(ids({}), ElementsAre(2u, none, none));
  EXPECT_THAT(ids({2}), ElementsAre(2u, none, none));
  EXPECT_THAT(ids({2, 7}), ElementsAre(2u, 7u, none));
  EXPECT_THAT(ids({7, 2, 7, 5}), ElementsAre(2u, 7u, 5u));
  EXPECT_THAT(ids({1600, 7}), ElementsAre(2u, 7u, none)) << "no row";
  const auto notes = [&](std::vector<TokenId> stops) {
    return gguf_tokenizer_notes(
        spec, {.vocabulary = 1600, .bos = {}, .eos = 2, .stop_tokens = std::move(stops), .chat_templates = {}});
  };
  EXPECT_THAT(notes({2, 7, 5}), testing::IsEmpty());
  EXPECT_THAT(notes({2, 7, 5, 9, 11}), ElementsAre(testing::HasSubstr("9, 11")));
}

TEST(GgufTokenizerKeysOf, SayWherePromptsGetOtherIds) {
  NIBBLE_NEEDS_SHARED("golden/tokenizers/mistral-metaspace/tokenizer.json");
  const auto notes = [](const char* name) {
    const TokenizerSpec spec = read_tokenizer(shared_path(std::string("golden/tokenizers/") + name));
    return gguf_tokenizer_notes(spec, {.vocabulary = spec.tokens.size(), .bos = {}, .eos = 2, .chat_templates = {}});
  };
  EXPECT_THAT(notes("mistral-metaspace"),
              testing::ElementsAre(testing::HasSubstr("a space behind every special token")));
  for (const char* const name : {"metaspace-always", "llama2", "gpt2"})
    EXPECT_THAT(notes(name), testing::IsEmpty()) << name;
  // Its special tokens take the spaces behind them in llama.cpp too; three of other kinds do not.
  EXPECT_THAT(notes("phi3"), testing::ElementsAre(testing::HasSubstr("3 added tokens ('<|odd|>', …)")));
}

TokenizerSpec named(std::vector<std::string> tokens, bool strips) {
  TokenizerSpec spec;
  spec.tokens = std::move(tokens);
  spec.added.push_back({.id = 0, .content = spec.tokens[0], .special = true, .right_strip = strips});
  return spec;
}

// llama.cpp aborts where the name says phi-3 and the tokens of that model are not there.
TEST(GgufModelName, SaysPhi3WhereItsTokensAre) {
  const std::vector<std::string> all{"<unk>", "<s>", "</s>", "<|endoftext|>"};
  EXPECT_EQ(gguf_model_name("my-Phi-3-mini", named(all, true)), "my-Phi-3-mini");
  EXPECT_EQ(gguf_model_name("mine", named(all, true)), "mine (phi-3)");
  EXPECT_EQ(gguf_model_name("mine", named(all, false)), "mine");
  EXPECT_EQ(gguf_model_name("my-Phi-3-and-phi3", named({"<unk>"}, true)), "my-phi_3-and-phi_3");
}

}  // namespace
}  // namespace nibble::model

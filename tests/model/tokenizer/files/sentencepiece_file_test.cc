#include "model/tokenizer/files/sentencepiece_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "core/error.h"
#include "core/text/json.h"
#include "model/tokenizer/tokenizer.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using nibble::test::read_file;
using nibble::test::source_path;
using nibble::test::TempDir;
using nibble::test::throws_with;
using nibble::test::write_file;
using Ids = std::vector<TokenId>;

std::shared_ptr<const Tokenizer> open_model(std::string_view bytes, std::string_view config = "{}") {
  const TempDir directory;
  write_file(directory / "tokenizer.model", bytes);
  write_file(directory / "tokenizer_config.json", config);
  return Tokenizer::open(directory.path());
}

/// Trained by the sentencepiece package 0.2.3 on pages of a novel, the second with eight normalisation rules of its
/// own; the cases are what that package made of the texts.
TEST(SentencePieceFile, GivesTheLibrarysIdsAndTexts) {
  for (const std::string name : {"spm_bpe", "spm_unigram"}) {
    SCOPED_TRACE(name);
    const auto tokenizer = open_model(read_file(source_path("tests/data/tokenizers/" + name + ".model")));
    const auto cases = nlohmann::json::parse(read_file(source_path("tests/data/tokenizers/" + name + ".json")));
    EXPECT_EQ(cases.size(), 13u);
    for (const auto& c : cases) {
      const auto text = c["text"].get<std::string>();
      SCOPED_TRACE(testing::PrintToString(text));
      EXPECT_EQ(tokenizer->encode(text), c["ids"].get<Ids>());
      EXPECT_EQ(tokenizer->decode(c["ids"].get<Ids>()), c["decoded"].get<std::string>());
    }
  }
}

// ---- files built byte by byte

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(static_cast<unsigned char>(value | 0x80));
  return bytes + static_cast<char>(value);
}
std::string number(unsigned field, std::uint64_t value) { return varint(field << 3) + varint(value); }
std::string text(unsigned field, std::string_view value) {
  return varint(field << 3 | 2) + varint(value.size()) + std::string(value);
}
std::string real(unsigned field, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  std::string bytes = varint(field << 3 | 5);
  for (unsigned i = 0; i < 4; ++i) bytes += static_cast<char>(static_cast<unsigned char>(bits >> (8 * i)));
  return bytes;
}
std::string piece(std::string_view spelling, float score, unsigned kind = 1) {
  return text(1, text(1, spelling) + real(2, score) + number(3, kind));
}

const std::string kUnknown = piece("<unk>", 0, 2);
const std::string kBpe = text(2, number(3, 2));

TEST(SentencePieceFile, MergesByScoreAndNotByPosition) {
  const std::string model = kUnknown + piece("a", -5) + piece("b", -6) + piece("ab", -2) + piece("ba", -1) +
                            piece("▁", -7) + text(2, number(3, 2));
  EXPECT_EQ(open_model(model)->encode("aba"), (Ids{5, 1, 4}));
  EXPECT_EQ(open_model(model)->encode("abab"), (Ids{5, 1, 4, 2}));
}

TEST(SentencePieceFile, NoSpaceGoesInFrontWhereTheConfigurationSaysSo) {
  const std::string model = kUnknown + piece("▁", -3) + piece("a", -2) + kBpe;
  EXPECT_EQ(open_model(model)->encode("a a"), (Ids{1, 2, 1, 2}));
  EXPECT_EQ(open_model(model, R"({"add_prefix_space": true})")->encode("a a"), (Ids{1, 2, 1, 2}));
  const auto bare = open_model(model, R"({"add_prefix_space": false})");
  EXPECT_EQ(bare->encode("a a"), (Ids{2, 1, 2}));
  EXPECT_EQ(bare->decode(Ids{2, 1, 2}), "a a");
}

TEST(SentencePieceFile, HalvesOfAPieceNeedNotBePieces) {
  const std::string model = kUnknown + piece("▁", -3) + piece("éç", -1) + piece("a", -2) + kBpe;
  EXPECT_EQ(open_model(model)->encode("éçaé"), (Ids{1, 2, 3, 0}));
  EXPECT_EQ(open_model(model)->encode("éé"), (Ids{1, 0}));  // several unknown characters are one
  EXPECT_EQ(open_model(model)->decode(Ids{1, 3, 0}), "a \u2047 ");
}

TEST(SentencePieceFile, ControlPiecesAreNotFoundUnlessTheConfigListsThem) {
  const std::string model =
      kUnknown + piece("<s>", 0, 3) + piece("▁", -1) + piece("<", -2) + piece("s", -3) + piece(">", -4) + kBpe;
  EXPECT_EQ(open_model(model)->encode("<s>"), (Ids{2, 3, 4, 5}));
  const auto tokenizer = open_model(model, R"({"add_bos_token": true, "bos_token": "<s>", "added_tokens_decoder":
      {"1": {"content": "<s>", "special": true, "normalized": false}}})");
  EXPECT_EQ(tokenizer->encode("<s>s"), (Ids{1, 2, 4}));
  EXPECT_EQ(tokenizer->added_bos(), TokenId{1});
  EXPECT_EQ(tokenizer->byte_length(1), 0u);
}

TEST(HostileSentencePiece, BrokenMessagesAreNamed) {
  const auto refused = [](const std::string& bytes, auto... words) {
    return throws_with<FormatError>([&] { open_model(bytes); }, "tokenizer.model", words...);
  };
  EXPECT_TRUE(refused("", "there are no pieces"));
  EXPECT_TRUE(refused("\x0A\x7F", "needs 127 bytes, but 0 are left"));
  EXPECT_TRUE(refused(std::string(11, '\xFF'), "more than 10 bytes"));
  EXPECT_TRUE(refused("\x0B", "unknown wire type 3"));
  EXPECT_TRUE(refused(number(1, 5), "field 1 must be a text or a message, got wire type 0"));
  EXPECT_TRUE(refused(text(1, text(2, "x")), "piece 0", "field 2 must be a number of 4 bytes"));
  EXPECT_TRUE(refused(text(1, text(1, "")), "piece 0", "the piece is empty"));
  EXPECT_TRUE(refused(text(1, text(1, "\xFF")), "piece 0", "not UTF-8"));
  EXPECT_TRUE(refused(piece("a", 0, 7), "the type 7 is not known"));
}

TEST(HostileSentencePiece, ModelsThatContradictThemselvesAreNamed) {
  const auto refused = [](const std::string& bytes, auto... words) {
    return throws_with<FormatError>([&] { open_model(bytes); }, "tokenizer.model", words...);
  };
  const float nan = std::bit_cast<float>(0x7FC00000u);
  EXPECT_TRUE(refused(piece("a", 0), "one piece must be of type UNKNOWN, got 0"));
  EXPECT_TRUE(refused(kUnknown + piece("a", 0) + piece("a", 0), "piece 'a' is there twice"));
  EXPECT_TRUE(refused(kUnknown + piece("a", nan), "the score of token 1 is not finite"));
  EXPECT_TRUE(refused(kUnknown + text(2, number(35, 1)), "byte_fallback needs 256 pieces of type BYTE, got 0"));
  EXPECT_TRUE(refused(kUnknown + text(2, number(3, 3)), "model type 3 is not supported"));
  EXPECT_TRUE(refused(kUnknown + text(5, text(2, "x")), "denormalisation rules are not supported"));
  EXPECT_TRUE(refused(kUnknown + piece(std::string(1025, 'a'), 0) + kBpe, "token 1 has 1025 bytes, more than 1024"));
  EXPECT_TRUE(refused(kUnknown + piece("a", 0) + piece("aa", 0, 5) + kBpe, "token 2 is unused, but pieces merge"));
}

TEST(HostileSentencePiece, CharsmapsAreChecked) {
  const auto refused = [](const std::string& charsmap, auto... words) {
    return throws_with<FormatError>(
        [&] { open_model(kUnknown + piece("▁", -1) + text(3, text(2, charsmap)))->encode("ab"); }, words...);
  };
  using namespace std::string_literals;
  EXPECT_TRUE(refused("x", "the charsmap has only 1 bytes"));
  EXPECT_TRUE(refused("\x08\0\0\0abcd"s, "a trie of 8 bytes does not fit into a charsmap of 8"));
  EXPECT_TRUE(refused("\x04\0\0\0abcdx"s, "does not end with a zero byte"));
  // Unit 0 leads on at once: offset 0 to unit 'a', which does not exist.
  EXPECT_NO_THROW(open_model(kUnknown + piece("▁", -1) + text(3, text(2, "\x04\0\0\0\0\0\0\0x\0"s)))->encode("ab"));
  // 'a' has a unit with a value, and its value points behind the texts.
  std::string units(4 * 128, '\0');
  units[4 * 'a'] = 'a';
  units[4 * 'a' + 1] = 5;  // bit 8: a value follows; offset 1
  units[4 * ('a' ^ 1)] = '\x70';
  EXPECT_TRUE(refused("\0\x02\0\0"s + units + "x\0"s, "the charsmap's rule for 'a' leads out of its table"));
}

TEST(SentencePieceFile, TokensWithANameMayBeControlPiecesWithoutAListOfThem) {
  const std::string model = read_file(source_path("tests/data/tokenizers/spm_bpe.model"));
  const auto plain = open_model(model);
  const auto named = open_model(
      model, R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "add_bos_token": true, "unk_token": "<unk>"})");
  EXPECT_EQ(named->eos(), TokenId{2});
  EXPECT_EQ(named->added_bos(), TokenId{1});
  EXPECT_EQ(named->encode("the door"), plain->encode("the door"));
  const Ids ids = named->encode("the</s>");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), TokenId{2}), 1);
  const Ids spelled = plain->encode("the</s>");
  EXPECT_EQ(std::count(spelled.begin(), spelled.end(), TokenId{2}), 0) << "as SentencePiece alone";
}

/// Ids and texts of transformers 5.23's LlamaTokenizer.
TEST(SentencePieceFile, ASpaceGoesBeforeTheWholeTextWhereLlamasClassIsNotLegacy) {
  struct Case {
    const char* text;
    Ids ids;
    const char* decoded;
  };
  const std::string model = read_file(source_path("tests/data/tokenizers/spm_bpe.model"));
  const std::string names = R"({"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "legacy": false)";
  const auto check = [&](const std::string& config, const std::vector<Case>& cases) {
    const auto tokenizer = open_model(model, config);
    for (const Case& c : cases) {
      EXPECT_EQ(tokenizer->encode(c.text), c.ids) << c.text;
      EXPECT_EQ(tokenizer->decode(c.ids), c.decoded);
    }
  };
  check(names + "}", {{"the door", {268, 283, 368, 295}, "the door"},
                      {" the", {268}, "the"},
                      {"the</s> the", {268, 2, 268}, "the</s> the"},
                      {"the</s>the", {268, 2, 367, 263}, "the</s>the"},
                      {"<s>the", {1, 367, 263}, "<s>the"},
                      {"  the  door ", {4, 367, 263, 4, 375, 368, 295, 365}, " the  door "},
                      {"é\nx<unk>a", {365, 418, 16, 407, 0, 369}, "é\nx<unk>a"},
                      {"ab<x>c d", {5, 3, 378, 283}, "ab<x>c d"},
                      {"中 ab", {365, 234, 190, 179, 365, 5}, "中 ab"},
                      {"▁a", {264}, "a"}});
  check(names + R"(, "add_prefix_space": false, "tokenizer_class": "LlamaTokenizerFast"})",
        {{"the door", {367, 263, 283, 368, 295}, "the door"},
         {" the", {268}, " the"},
         {"  the", {4, 367, 263}, "  the"},
         {"▁a", {264}, " a"}});
  const Ids legacy = open_model(model)->encode("the</s>the");
  for (const char* other :
       {R"({"legacy": true})", R"({"legacy": null})", R"({"legacy": false, "tokenizer_class": "GemmaTokenizer"})"})
    EXPECT_EQ(open_model(model, other)->encode("the</s>the"), legacy) << other;
}

TEST(SentencePieceFile, NormalisationWithoutLegacyIsRefused) {
  const std::string unigram = read_file(source_path("tests/data/tokenizers/spm_unigram.model"));
  const std::string strips = kUnknown + piece("a", -1) + kBpe;  // extra white space, if nothing is said
  const std::string keeps = strips + text(3, number(4, 0));
  EXPECT_EQ(open_model(keeps, R"({"legacy": false})")->encode("aa"), (Ids{0, 1, 1}));
  for (const std::string& model : {unigram, strips, keeps + text(3, text(2, "x")), keeps + text(2, number(24, 1)),
                                   keeps + text(3, number(5, 0)), keeps + text(2, number(3, 1))})
    EXPECT_TRUE(throws_with<FormatError>([&] { open_model(model, R"({"legacy": false})"); }, "tokenizer.model",
                                         "\"legacy\": false", "remove_extra_whitespaces off"));
}

TEST(SentencePieceFile, TakesAddedTokensFromAFileOfTheirOwn) {
  const TempDir directory;
  write_file(directory / "tokenizer.model", read_file(source_path("tests/data/tokenizers/spm_unigram.model")));
  const auto size = static_cast<TokenId>(Tokenizer::open(directory.path())->vocabulary_size());
  write_file(directory / "added_tokens.json",
             R"({"<|im_end|>": )" + std::to_string(size + 1) + R"(, "<|im_start|>": )" + std::to_string(size) + "}");
  const auto tokenizer = Tokenizer::open(directory.path());
  const Ids ids = tokenizer->encode("<|im_start|>user<|im_end|>");
  EXPECT_EQ(ids.front(), size);
  EXPECT_EQ(ids.back(), size + 1);
  for (const char* wrong : {"[]", R"({"a": -1})", R"({"a": "3"})", R"({"": 5000})", R"({"a": 99999999})"}) {
    write_file(directory / "added_tokens.json", wrong);
    EXPECT_TRUE(throws_with<FormatError>([&] { Tokenizer::open(directory.path()); }, "added_tokens.json")) << wrong;
  }
}

// Sums of scores reach millions in a long text; what they leave of a float must still tell two ways apart.
TEST(SentencePieceFile, LongTextsAreCutAsTheirPartsAre) {
  const auto tokenizer = open_model(read_file(source_path("tests/data/tokenizers/spm_unigram.model")));
  const std::string part = read_file(source_path("datasets/demo/eval.txt")).substr(0, 20'000);
  const std::size_t once = tokenizer->encode(part).size(), twice = tokenizer->encode(part + part).size();
  std::string text;
  constexpr std::size_t kParts = 200;
  for (std::size_t i = 0; i < kParts; ++i) text += part;
  EXPECT_EQ(tokenizer->encode(text).size(), once + (kParts - 1) * (twice - once));
}

}  // namespace
}  // namespace nibble::model

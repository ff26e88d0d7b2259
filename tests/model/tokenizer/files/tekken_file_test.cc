#include "model/tokenizer/files/tekken_file.h"

#include <gtest/gtest.h>

#include <map>

#include "core/error.h"
#include "core/random.h"
#include "core/text/json.h"
#include "model/tokenizer/tokenizer.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using nibble::test::TempDir;
using nibble::test::throws_with;
using nibble::test::write_file;
using Json = nlohmann::json;
using Ids = std::vector<TokenId>;

constexpr TokenId kSpecial = 24;

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) bits = bits << 8 | (i + k < bytes.size() ? std::uint8_t(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k) text += i + k > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * k) & 63];
  }
  return text;
}

// All bytes, then `words`.
Json file_of(const std::vector<std::string>& words) {
  Json vocab = Json::array();
  const auto add = [&](const std::string& bytes) {
    vocab.push_back({{"rank", vocab.size()}, {"token_bytes", base64(bytes)}, {"token_str", nullptr}});
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  for (const std::string& word : words) add(word);
  return {{"config",
           {{"pattern", " ?[a-z]+|\\s+(?!\\S)|\\s+"},
            {"num_vocab_tokens", vocab.size()},
            {"default_vocab_size", vocab.size() + kSpecial},
            {"default_num_special_tokens", kSpecial},
            {"version", "v3"}}},
          {"vocab", vocab}};
}

std::shared_ptr<const Tokenizer> open(const Json& file, const Json& config = Json::object()) {
  const TempDir directory;
  write_file(directory / "tekken.json", file.dump());
  write_file(directory / "tokenizer_config.json", config.dump());
  return Tokenizer::open(directory.path());
}

TEST(TekkenFile, MergesByRanks) {
  const auto tokenizer = open(file_of({"ab", "bc", "abcd", "cd", " x", "\xC3\xA9", "xyz"}));
  const TokenId ab = kSpecial + 256, bc = ab + 1, abcd = ab + 2, cd = ab + 3, x = ab + 4, e = ab + 5, xyz = ab + 6;
  const auto byte = [](char c) { return kSpecial + static_cast<std::uint8_t>(c); };
  EXPECT_EQ(tokenizer->encode("abc"), (Ids{ab, byte('c')}));  // "ab" has the lower rank
  EXPECT_EQ(tokenizer->encode("xbc"), (Ids{byte('x'), bc}));
  EXPECT_EQ(tokenizer->encode("abcde"), (Ids{abcd, byte('e')}));  // "ab", "cd", and those
  EXPECT_EQ(tokenizer->encode("bcd"), (Ids{bc, byte('d')}));
  EXPECT_EQ(tokenizer->encode("xyz"), Ids{xyz});  // nothing makes it, but it is a token
  EXPECT_EQ(tokenizer->encode("xyzz"), (Ids{byte('x'), byte('y'), byte('z'), byte('z')}));
  EXPECT_EQ(tokenizer->encode("ab xcd"), (Ids{ab, x, cd}));
  EXPECT_EQ(tokenizer->encode("\xC3\xA9"), Ids{e});
  EXPECT_EQ(tokenizer->decode(Ids{1, ab, x, e, 2}), "<s>ab x\xC3\xA9</s>");
  EXPECT_EQ(tokenizer->vocabulary_size(), kSpecial + 256u + 7u);
}

// As tiktoken, which mistral_common uses, does it: the neighbours of the lowest rank, leftmost of equals, become one.
Ids merged_by_ranks(const std::map<std::string, TokenId>& ids, const std::string& word) {
  if (const auto whole = ids.find(word); whole != ids.end()) return {whole->second};
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  for (;;) {
    std::size_t best = parts.size();
    TokenId lowest = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = ids.find(parts[i] + parts[i + 1]);
      if (found == ids.end() || (best != parts.size() && found->second >= lowest)) continue;
      best = i;
      lowest = found->second;
    }
    if (best == parts.size()) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  Ids result;
  for (const std::string& part : parts) result.push_back(ids.at(part));
  return result;
}

TEST(TekkenFile, AgreesWithMergingByRanksOnRandomVocabularies) {
  std::size_t merged = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    // Tokens of different letters: overlapping pairs are never the same token.
    std::map<std::string, TokenId> ids;
    std::vector<std::string> words;
    for (int byte = 0; byte < 256; ++byte) ids[std::string(1, static_cast<char>(byte))] = kSpecial + TokenId(byte);
    while (words.size() < 40) {
      std::string letters = "abcdefg", word;
      const std::size_t length = 2 + random.below(3);
      while (word.size() < length) {
        const std::size_t at = random.below(letters.size());
        word += letters[at];
        letters.erase(at, 1);
      }
      if (ids.emplace(word, kSpecial + 256 + TokenId(words.size())).second) words.push_back(word);
    }
    const auto tokenizer = open(file_of(words));
    for (int text = 0; text < 50; ++text) {
      std::string word;
      const std::size_t length = 1 + random.below(24);
      while (word.size() < length) word += static_cast<char>('a' + random.below(7));
      const Ids expected = merged_by_ranks(ids, word);
      merged += word.size() - expected.size();
      EXPECT_EQ(tokenizer->encode(word), expected) << word;
    }
  }
  EXPECT_GT(merged, 1000u);
}

TEST(TekkenFile, RunsOfALetterMergeFromTheLeft) {
  const TokenId a = kSpecial + 'a', aa = kSpecial + 256, aaa = aa + 1;
  EXPECT_EQ(open(file_of({"aa", "aaa"}))->encode("aaaaa"), (Ids{aa, aaa}));
  EXPECT_EQ(open(file_of({"aa", "aaa"}))->encode("aaaa"), (Ids{aa, aa}));
  EXPECT_EQ(open(file_of({"aa"}))->encode("aaa"), (Ids{aa, a}));
}

TEST(TekkenFile, SpecialTokensAreThoseOfTheFileOrOfItsTime) {
  const Json former = file_of({"ab"});
  const auto tokenizer = open(former);
  EXPECT_EQ(tokenizer->added_bos(), TokenId{1});
  EXPECT_EQ(tokenizer->eos(), TokenId{2});
  EXPECT_EQ(tokenizer->encode("[INST]ab[/INST]"), (Ids{3, kSpecial + 256, 4}));
  EXPECT_EQ(tokenizer->encode("<SPECIAL_20><SPECIAL_23>"), (Ids{20, 23}));
  EXPECT_EQ(tokenizer->decode(Ids{19, 20}), "[TOOL_CONTENT]<SPECIAL_20>");
  EXPECT_EQ(open(former, {{"add_bos_token", false}})->added_bos(), std::nullopt);

  Json listed = former;
  listed["special_tokens"] = {{{"rank", 2}, {"token_str", "</s>"}, {"is_control", true}},
                              {{"rank", 5}, {"token_str", "[THINK]"}, {"is_control", false}}};
  const auto of_list = open(listed);
  EXPECT_EQ(of_list->added_bos(), std::nullopt);
  EXPECT_EQ(of_list->eos(), TokenId{2});
  EXPECT_EQ(of_list->encode("[THINK]ab<SPECIAL_3>"), (Ids{5, kSpecial + 256, 3}));
}

TEST(TekkenFile, TokensBehindTheModelsVocabularyAreLeftOut) {
  Json file = file_of({"ab", "cd"});
  file["config"]["default_vocab_size"] = kSpecial + 257;
  const auto tokenizer = open(file);
  EXPECT_EQ(tokenizer->vocabulary_size(), kSpecial + 257u);
  EXPECT_EQ(tokenizer->encode("abcd"), (Ids{kSpecial + 256, kSpecial + 'c', kSpecial + 'd'}));
}

TEST(TekkenFile, ARefusalNamesFileAndPlace) {
  const auto refused = [](const char* pointer, const Json& value, auto... words) {
    Json file = file_of({"ab"});
    file["special_tokens"] = {{{"rank", 0}, {"token_str", "<unk>"}}, {{"rank", 1}, {"token_str", "<s>"}}};
    file[Json::json_pointer(pointer)] = value;
    return throws_with<FormatError>([&] { open(file); }, "tekken.json", words...);
  };
  EXPECT_TRUE(refused("/config/pattern", "(a", "a missing closing parenthesis"));
  EXPECT_TRUE(refused("/config/pattern", "", "pattern"));
  EXPECT_TRUE(refused("/config/default_vocab_size", 1u << 25, "default_vocab_size"));
  EXPECT_TRUE(
      refused("/config/default_vocab_size", kSpecial + 258, "258 ids behind 24 special tokens", "'vocab' has 257"));
  EXPECT_TRUE(refused("/config/default_num_special_tokens", 0, "default_num_special_tokens"));
  EXPECT_TRUE(refused("/config/default_num_special_tokens", 1000, "default_num_special_tokens"));
  EXPECT_TRUE(refused("/vocab/7/rank", 8, "rank 8 is of two tokens"));
  EXPECT_TRUE(refused("/vocab/256/rank", 400, "no token has rank 256"));
  EXPECT_TRUE(refused("/vocab/7/token_bytes", "A", "'vocab'[7]", "base64", "'A'"));
  EXPECT_TRUE(refused("/vocab/7/token_bytes", "", "base64"));
  EXPECT_TRUE(refused("/vocab/7/token_bytes", base64(std::string(513, 'a')), "1 to 512 bytes"));
  EXPECT_TRUE(refused("/vocab/7/token_bytes", 5, "token_bytes"));
  EXPECT_TRUE(refused("/special_tokens/0/rank", kSpecial, "rank"));
  EXPECT_TRUE(refused("/special_tokens/0/rank", 1, "rank 1 is of two special tokens"));
  EXPECT_TRUE(refused("/special_tokens/0/token_str", "", "token_str"));
  EXPECT_TRUE(refused("/special_tokens/0/token_str", "<s>", "<s>"));
  EXPECT_TRUE(refused("/vocab", 5, "vocab"));
  const Json config = {{"added_tokens_decoder", {{"24", {{"content", "<more>"}, {"special", true}}}}}};
  EXPECT_TRUE(throws_with<FormatError>([&] { open(file_of({"ab"}), config); }, "added token 24", "ids below 24"));
}

}  // namespace
}  // namespace nibble::model

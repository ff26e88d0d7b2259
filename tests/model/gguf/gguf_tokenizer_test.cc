#include "model/gguf/gguf_tokenizer.h"

#include <gmock/gmock.h>

#include <limits>

#include "core/error.h"
#include "model/gguf/gguf_pre_tokenizers.h"
#include "model/tokenizer/split/pre_tokenizer.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using test::throws_with;
using testing::ElementsAre;

/// Byte-level BPE over the letters a, b, c, the space and one digit.
GgufMetadata byte_level() {
  GgufMetadata metadata;
  metadata.set_name("metadata of m.gguf");
  const std::string tokens[]{"<s>", "</s>", "a", "b", "c", "\u0120", "1", "ab", "\u0120ab", "<tool>", "11"};
  const std::int32_t types[]{3, 3, 1, 1, 1, 1, 1, 1, 1, 4, 1};
  const std::string merges[]{"a b", "\u0120 ab", "1 1"};
  metadata.add("tokenizer.ggml.model", GgufValue(std::string("gpt2")));
  metadata.add("tokenizer.ggml.tokens", GgufValue::strings(tokens));
  metadata.add("tokenizer.ggml.token_type", GgufValue::integers(types));
  metadata.add("tokenizer.ggml.merges", GgufValue::strings(merges));
  metadata.add("tokenizer.ggml.bos_token_id", GgufValue(std::uint32_t{0}));
  metadata.add("tokenizer.ggml.eos_token_id", GgufValue(std::uint32_t{1}));
  return metadata;
}

GgufMetadata with(GgufMetadata metadata, std::string key, GgufValue value) {
  metadata.add(std::move(key), std::move(value));
  return metadata;
}

/// The same without one key, or with another value for it.
GgufMetadata without(const GgufMetadata& metadata, std::string_view key) {
  GgufMetadata rest;
  rest.set_name(metadata.name());
  for (const auto& [name, value] : metadata.items())
    if (name != key) rest.add(name, value);
  return rest;
}

GgufValue word(std::string text) { return GgufValue(std::move(text)); }

/// SentencePiece BPE whose scores prefer "▁ab".
GgufMetadata sentencepiece() {
  GgufMetadata metadata;
  metadata.set_name("metadata of m.gguf");
  const std::string tokens[]{"<unk>",  "<s>", "</s>",     "<0x0A>", "a",     "b",
                             "\u2581", "ab",  "\u2581ab", "<0xC3>", "<0xA9>"};
  const float scores[]{0, 0, 0, 0, -10, -11, -12, -1, -2, 0, 0};
  const std::int32_t types[]{2, 3, 3, 6, 1, 1, 1, 1, 1, 6, 6};
  metadata.add("tokenizer.ggml.model", word("llama"));
  metadata.add("tokenizer.ggml.tokens", GgufValue::strings(tokens));
  metadata.add("tokenizer.ggml.scores", GgufValue::floats(scores));
  metadata.add("tokenizer.ggml.token_type", GgufValue::integers(types));
  metadata.add("tokenizer.ggml.bos_token_id", GgufValue(std::uint32_t{1}));
  metadata.add("tokenizer.ggml.eos_token_id", GgufValue(std::uint32_t{2}));
  return metadata;
}

TEST(GgufTokenizer, OfGpt2IsByteLevelBpe) {
  const auto tokenizer = make_gguf_tokenizer(with(byte_level(), "tokenizer.ggml.pre", word("gpt-2")));
  EXPECT_THAT(tokenizer->encode("ab ab c"), ElementsAre(7, 8, 5, 4));
  EXPECT_THAT(tokenizer->encode("a<tool>b</s>"), ElementsAre(2, 9, 3, 1)) << "user-defined and control tokens";
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{7, 8, 9, 1}), "ab ab<tool></s>");
  EXPECT_EQ(tokenizer->vocabulary_size(), 11u);
  EXPECT_EQ(tokenizer->eos(), std::optional<TokenId>(1));
  EXPECT_EQ(tokenizer->added_bos(), std::nullopt) << "GPT-2 adds none";
}

TEST(GgufTokenizer, IsCutAsPreSays) {
  const auto encode = [](const char* pre, const char* text) {
    return make_gguf_tokenizer(with(byte_level(), "tokenizer.ggml.pre", word(pre)))->encode(text);
  };
  EXPECT_THAT(encode("gpt-2", "1111"), ElementsAre(10, 10));
  EXPECT_THAT(encode("starcoder", "1111"), ElementsAre(6, 6, 6, 6)) << "digits one by one";
  EXPECT_THAT(encode("llama-bpe", "1111"), ElementsAre(10, 6, 6)) << "by threes from the left";
  EXPECT_THAT(encode("default", "1111"), ElementsAre(10, 6, 6));
  const auto unsaid = make_gguf_tokenizer(byte_level());
  EXPECT_THAT(unsaid->encode("1111"), ElementsAre(10, 6, 6)) << "no key is the default";
}

TEST(GgufTokenizer, AddsABosWhereItIsSaid) {
  const auto bos = [](const GgufMetadata& metadata) { return make_gguf_tokenizer(metadata)->added_bos(); };
  const std::optional<TokenId> first(0), none;
  const GgufMetadata llama3 = with(byte_level(), "tokenizer.ggml.pre", word("llama-bpe"));
  EXPECT_EQ(bos(llama3), first) << "its default";
  EXPECT_EQ(bos(with(llama3, "tokenizer.ggml.add_bos_token", GgufValue(false))), none);
  EXPECT_EQ(bos(with(byte_level(), "tokenizer.ggml.add_bos_token", GgufValue(true))), first);
  EXPECT_EQ(bos(sentencepiece()), std::optional<TokenId>(1));
}

TEST(GgufTokenizer, OfLlamaIsSentencePieceBpe) {
  const auto tokenizer = make_gguf_tokenizer(sentencepiece());
  EXPECT_THAT(tokenizer->encode("ab ab"), ElementsAre(8, 8)) << "a space goes in front";
  EXPECT_THAT(tokenizer->encode("ab\n\u00E9"), ElementsAre(8, 3, 9, 10)) << "bytes of characters that are no tokens";
  EXPECT_THAT(tokenizer->encode("<s>"), ElementsAre(1));
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{8, 8, 3}), "ab ab\n");
  const auto bare = make_gguf_tokenizer(with(sentencepiece(), "tokenizer.ggml.add_space_prefix", GgufValue(false)));
  EXPECT_THAT(bare->encode("ab ab"), ElementsAre(7, 8));
}

template <class... Words>
testing::AssertionResult refuses(const GgufMetadata& metadata, Words... words) {
  return throws_with<FormatError>([&] { make_gguf_tokenizer(metadata); }, "metadata of m.gguf", words...);
}

GgufMetadata replaced(const GgufMetadata& metadata, std::string key, GgufValue value) {
  GgufMetadata rest = without(metadata, key);
  return with(std::move(rest), std::move(key), std::move(value));
}

TEST(GgufTokenizer, RefusesOtherModelsByName) {
  for (const char* const model : {"t5", "bert", "rwkv", "none", "no_vocab", "plamo2"})
    EXPECT_TRUE(refuses(replaced(byte_level(), "tokenizer.ggml.model", word(model)), "'tokenizer.ggml.model' is '",
                        model, "expected 'gpt2'"));
  EXPECT_TRUE(refuses(with(byte_level(), "tokenizer.ggml.pre", word("lama-bpe")), "'tokenizer.ggml.pre' is 'lama-bpe'",
                      "did you mean 'llama-bpe'?"));
}

TEST(GgufTokenizer, RefusesListsThatDoNotFit) {
  const std::int32_t types[]{1, 1}, wrong[]{3, 3, 1, 1, 1, 1, 1, 1, 1, 7, 1};
  const float scores[]{1.0f}, infinite[]{0, 0, 0, 0, -10, -11, -12, -1, std::numeric_limits<float>::infinity(), 0, 0};
  const std::string merge[]{"ab"}, unknown[]{"a b", "a c"}, none[]{"x"};
  EXPECT_TRUE(refuses(without(byte_level(), "tokenizer.ggml.model"), "'tokenizer.ggml.model' with a string"));
  EXPECT_TRUE(refuses(without(byte_level(), "tokenizer.ggml.tokens"), "'tokenizer.ggml.tokens'", "there is none"));
  EXPECT_TRUE(refuses(without(byte_level(), "tokenizer.ggml.merges"), "'tokenizer.ggml.merges'", "there is none"));
  EXPECT_TRUE(refuses(without(sentencepiece(), "tokenizer.ggml.scores"), "'tokenizer.ggml.scores'", "there is none"));
  EXPECT_TRUE(refuses(replaced(byte_level(), "tokenizer.ggml.tokens", GgufValue::integers(types)),
                      "should be an array of STRING, but is ARRAY [INT32; 2]"));
  EXPECT_TRUE(refuses(replaced(byte_level(), "tokenizer.ggml.tokens", GgufValue::strings({})), "0 tokens"));
  EXPECT_TRUE(refuses(replaced(byte_level(), "tokenizer.ggml.token_type", GgufValue::integers(types)),
                      "'tokenizer.ggml.token_type' has 2 entries for 11 tokens"));
  EXPECT_TRUE(refuses(replaced(byte_level(), "tokenizer.ggml.token_type", GgufValue::integers(wrong)),
                      "is 7 for token 9; expected 0 to 6"));
  EXPECT_TRUE(refuses(replaced(sentencepiece(), "tokenizer.ggml.scores", GgufValue::floats(scores)),
                      "'tokenizer.ggml.scores' has 1 entries for 11 tokens"));
  EXPECT_TRUE(refuses(replaced(sentencepiece(), "tokenizer.ggml.scores", GgufValue::floats(infinite)), "score"));
  EXPECT_TRUE(refuses(replaced(byte_level(), "tokenizer.ggml.merges", GgufValue::strings(merge)),
                      "entry 0 of 'tokenizer.ggml.merges' should be two tokens with a space between, but is 'ab'"));
  EXPECT_TRUE(refuses(replaced(byte_level(), "tokenizer.ggml.merges", GgufValue::strings(unknown)),
                      "'ac' is not in the vocabulary"));
  EXPECT_TRUE(refuses(replaced(byte_level(), "tokenizer.ggml.merges", GgufValue::strings(none)), "entry 0"));
  EXPECT_TRUE(refuses(replaced(byte_level(), "tokenizer.ggml.eos_token_id", GgufValue(std::uint32_t{11})),
                      "'tokenizer.ggml.eos_token_id' is 11, but there are 11 tokens"));
  EXPECT_TRUE(refuses(replaced(byte_level(), "tokenizer.ggml.bos_token_id", GgufValue(std::int32_t{-1})),
                      "'tokenizer.ggml.bos_token_id' should be a whole number from 0"));
}

// As Hugging Face's tokenizers cut this text by the models' own patterns.
TEST(GgufTokenizer, CutsAsTheModelsDo) {
  const auto words_by = [](std::string_view name) {
    const GgufPreTokenizer* const pre = find_gguf_pre_tokenizer(name);
    std::vector<std::string> words;
    if (pre == nullptr) return words;
    std::vector<PreTokenizerStep> steps;
    for (const std::string& pattern : pre->patterns) steps.emplace_back(SplitStep{.pattern = pattern});
    PreTokenizer(steps, "test", PreTokenizer::LastByteLevel::kLeftAsBytes)
        .split("It's  1234567 x!\n\n12a", true, [&](std::string_view word) { words.emplace_back(word); });
    return words;
  };
  EXPECT_THAT(words_by("seed-coder"),
              ElementsAre("It", "'s", " ", " ", "1", "2", "3", "4", "5", "6", "7", " x", "!", "\n\n", "1", "2", "a"));
  EXPECT_THAT(words_by("minicpm5"), ElementsAre("It", "'s", "  ", "123", "456", "7", " x", "!\n\n", "12", "a"));
  EXPECT_THAT(words_by("tiny_aya"), ElementsAre("It's", "  ", "1", "234", "567", " x", "!\n\n", "12", "a"));
  EXPECT_THAT(words_by("superbpe"), ElementsAre("It's  ", "1", "234", "567", " x!\n\n", "12", "a"));
}

// Every pattern compiles, and cuts a text into words that are the text.
TEST(GgufTokenizer, KnowsWorkingPatternsForEveryPre) {
  const std::string text = "ab  c11 1111\n\n a<b!? 'S \u00E9\u4E2D\u6587 \u0394x_\u3002  ";
  EXPECT_GE(gguf_pre_tokenizers().size(), 40u);
  GgufMetadata bytes = byte_level();
  std::vector<std::string> tokens{"<s>"};
  for (int byte = 0; byte < 256; ++byte) {  // GPT-2's byte alphabet
    static int next = 256;
    const bool plain = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const int code = plain ? byte : next++;
    std::string spelled;
    if (code < 0x80) {
      spelled += static_cast<char>(code);
    } else {
      spelled += static_cast<char>(0xC0 | code >> 6);
      spelled += static_cast<char>(0x80 | (code & 63));
    }
    tokens.push_back(spelled);
  }
  bytes = replaced(bytes, "tokenizer.ggml.tokens", GgufValue::strings(tokens));
  bytes = replaced(bytes, "tokenizer.ggml.merges", GgufValue::strings({}));
  bytes = without(bytes, "tokenizer.ggml.token_type");
  for (const GgufPreTokenizer& pre : gguf_pre_tokenizers()) {
    const auto tokenizer = make_gguf_tokenizer(with(bytes, "tokenizer.ggml.pre", word(std::string(pre.name))));
    const auto ids = tokenizer->encode(text);
    EXPECT_EQ(ids.size(), text.size()) << pre.name;
    EXPECT_EQ(tokenizer->decode(ids), text) << pre.name;
  }
}

}  // namespace
}  // namespace nibble::model

#include "model/gguf/gguf_pre_tokenizers.h"

#include "model/tokenizer/split/qwen2_pattern.h"

namespace nibble::model {
namespace {

// Patterns as the models' own tokenizers publish them. llama.cpp spells some of them in a dialect of its own; where the
// two differ in what they match, the models' spelling counts.
const std::string kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const std::string kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string kQwen2(kQwen2Pattern);
const std::string kTekken = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
                            R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
                            R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Seed-Coder: as Qwen2, but line ends are no part of punctuation.
const std::string kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
// MiniCPM 5: behind a cut around numbers.
const std::string kMiniCpm5 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Numbers in groups of three from their end.
const std::string kThousands = R"(\d{1,3}(?=(?:\d{3})*\b))", kThousandsStart = R"((?=(\d{3})+(?!\d)))";
const std::string kThreeNumbers = R"(\p{N}{1,3})";
const std::string kDigit = R"(\p{N})", kThreeDigits = "[0-9][0-9][0-9]", kLineEnd = R"([\r\n])";
const std::string kBloom = " ?[^(\\s|.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C)]+";
const std::string kCjk = "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+";
const std::string kPunctuation = R"([\p{P}\$\+<=>\^~\|`]+)";

// Letters with case, as DeepSeek LLM lists them.
const std::string kDeepseekWord =
    "\\s?["
    "A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF\u0370-\u0373"
    "\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5\u03F7-\u0481"
    "\u048A-\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B"
    "\u1D6B-\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B"
    "\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB"
    "\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128"
    "\u212A-\u212D\u212F-\u2134\u2139\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4"
    "\u2CEB-\u2CEE\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF"
    "\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A\U00010400-\U0001044F\U000104B0-\U000104D3"
    "\U000104D8-\U000104FB\U00010C80-\U00010CB2\U00010CC0-\U00010CF2\U000118A0-\U000118DF"
    "\U0001E900-\U0001E943"
    "]+";
const std::string kDeepseekPunctuation = "\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+";
const std::string kDeepseek3Cjk = "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+";
const std::string kDeepseek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

const std::vector<GgufPreTokenizer>& pre_tokenizer_table() {
  static const std::vector<GgufPreTokenizer> list = [] {
    const std::vector<std::string> digits_then_gpt2{kDigit, kGpt2};
    std::vector<GgufPreTokenizer> rows{
        // "default" is what llama.cpp does for files of before the key: no model's own way.
        {.name = "default", .patterns = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)", kThreeDigits}},
        {.name = "falcon", .patterns = {kPunctuation, kGpt2, kThreeDigits}},
        {.name = "deepseek-coder", .patterns = {kLineEnd, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kCjk, kDigit}},
        {.name = "deepseek-llm",
         .patterns = {kLineEnd, kDeepseekWord, kDeepseekPunctuation, R"(\s+$)", kCjk, R"(\p{N}+)"}},
        {.name = "deepseek-v3", .patterns = {kThreeNumbers, kDeepseek3Cjk, kDeepseek3}},
        {.name = "viking", .patterns = {kBloom, kDigit}},
    };
    const auto add = [&](std::initializer_list<std::string_view> names, const std::vector<std::string>& patterns,
                         bool ignore_merges = false, bool add_bos = false) {
      for (const std::string_view name : names)
        rows.push_back({.name = name, .patterns = patterns, .ignore_merges = ignore_merges, .add_bos = add_bos});
    };
    add({"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "gigachat", "jina-es", "jina-de",
         "jina-v1-en", "jina-v2-es", "jina-v2-de", "jina-v2-code", "roberta-bpe", "a.x-4.0", "mellum", "exaone4",
         "modern-bert"},
        {kGpt2});
    add({"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
        digits_then_gpt2);
    add({"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
        {kLlama3}, true, true);
    add({"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, {kLlama3});
    add({"qwen2", "stablelm2", "deepseek-r1-qwen", "kormo", "megrez", "hunyuan", "grok-2", "f2llmv2", "solar-open"},
        {kQwen2});
    add({"tekken"}, {kTekken}, true, true);
    add({"gpt-4o", "llama4", "minimax-m2", "kanana2", "talkie"}, {kGpt4o});
    add({"bloom", "poro-chat", "gpt3-finnish"}, {kBloom});
    add({"hunyuan-dense", "joyai-llm", "hy_v4"}, {kThreeNumbers, kDeepseek3Cjk, kDeepseek3});
    add({"seed-coder"}, {kSeedCoder});
    add({"minicpm5"}, {kThreeNumbers, kMiniCpm5}, true);
    add({"tiny_aya", "cohere2moe"}, {kThousands, kGpt4o});
    add({"superbpe"}, {R"(\p{N}+)", kThousandsStart});
    for (GgufPreTokenizer& row : rows) row.compose = row.name == "qwen2" || row.name == "command-r";
    return rows;
  }();
  return list;
}

}  // namespace

std::span<const GgufPreTokenizer> gguf_pre_tokenizers() { return pre_tokenizer_table(); }

const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name) {
  for (const GgufPreTokenizer& row : pre_tokenizer_table())
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace nibble::model

#include "model/tokenizer/files/tekken_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/text/base64.h"
#include "core/text/excerpt.h"
#include "core/text/json.h"
#include "core/text/json_fields.h"
#include "core/text/strict_json.h"
#include "model/tokenizer/files/text_file.h"
#include "model/tokenizer/files/vocabulary.h"
#include "model/tokenizer/words/byte_alphabet.h"

namespace nibble::model {
namespace {

using Kind = TokenizerSpec::PieceKind;

// Of files that list none.
constexpr std::string_view kFormerSpecialTokens[] = {"<unk>",
                                                     "<s>",
                                                     "</s>",
                                                     "[INST]",
                                                     "[/INST]",
                                                     "[AVAILABLE_TOOLS]",
                                                     "[/AVAILABLE_TOOLS]",
                                                     "[TOOL_RESULTS]",
                                                     "[/TOOL_RESULTS]",
                                                     "[TOOL_CALLS]",
                                                     "[IMG]",
                                                     "<pad>",
                                                     "[IMG_BREAK]",
                                                     "[IMG_END]",
                                                     "[PREFIX]",
                                                     "[MIDDLE]",
                                                     "[SUFFIX]",
                                                     "[SYSTEM_PROMPT]",
                                                     "[/SYSTEM_PROMPT]",
                                                     "[TOOL_CONTENT]"};
constexpr std::size_t kLongestToken = 512;                 // bytes; cutting it in two everywhere costs the square
constexpr std::size_t kMostMerges = std::size_t{1} << 23;  // 100 MB; Mistral's files have 270,000
constexpr std::uint64_t kMostSpecialTokens = 1u << 16;     // no line of the file pays for those without a name

void set_special_tokens(TokenizerSpec& spec, const JsonFields& file, std::size_t count) {
  spec.added.resize(count);
  for (TokenId id = 0; id < count; ++id)
    spec.added[id] = {.id = id, .content = fmt::format("<SPECIAL_{}>", id), .special = true};
  if (!file.has("special_tokens")) {
    for (std::size_t id = 0; id < std::min(count, std::size(kFormerSpecialTokens)); ++id)
      spec.added[id].content = kFormerSpecialTokens[id];
    return;
  }
  std::set<TokenId> listed;
  for (const JsonFields& token : file.objects("special_tokens")) {
    AddedToken& added = spec.added[token.integer("rank", 0, count - 1)];
    NIBBLE_REQUIRE(listed.insert(added.id).second, FormatError, "{}: rank {} is of two special tokens", token.what(),
                   added.id);
    added.content = token.filled_text("token_str");
    added.special = token.boolean_or("is_control", true);
  }
}

// The tokens by id, spelled in the byte alphabet behind the special ones.
std::vector<std::string> read_tokens(const TokenizerSpec& spec, const JsonFields& file, std::size_t size) {
  const std::size_t special = spec.added.size();
  NIBBLE_REQUIRE(size - special <= file.list("vocab").size(), FormatError,
                 "{}: {} ids behind {} special tokens, but 'vocab' has {} tokens", spec.where, size - special, special,
                 file.list("vocab").size());
  std::vector<std::string> tokens(size);
  for (const AddedToken& added : spec.added) tokens[added.id] = added.content;
  for (const JsonFields& token : file.objects("vocab")) {
    const std::uint64_t rank = token.integer("rank", 0, kMaxVocabulary - 1);
    if (rank >= size - special) continue;  // files hold more than the model has
    const std::string& text = token.text("token_bytes");
    const std::optional<std::string> bytes = decode_base64(text);
    NIBBLE_REQUIRE(bytes && !bytes->empty() && bytes->size() <= kLongestToken, FormatError,
                   "{}: 'token_bytes' must be 1 to {} bytes in base64, got {}", token.what(), kLongestToken,
                   in_quotes(text));
    std::string& spelled = tokens[special + rank];
    NIBBLE_REQUIRE(spelled.empty(), FormatError, "{}: rank {} is of two tokens", token.what(), rank);
    spelled = spell_bytes(*bytes);
  }
  for (std::size_t id = special; id < size; ++id)
    NIBBLE_REQUIRE(!tokens[id].empty(), FormatError, "{}: no token has rank {}, and the vocabulary has {}", spec.where,
                   id - special, size - special);
  return tokens;
}

// Every way to make the token of two.
void add_merges(TokenizerSpec& spec, TokenId token) {
  const std::string_view spelled = spec.tokens[token];
  const std::size_t first = spec.merges.size();
  for (std::size_t cut = 1; cut < spelled.size(); ++cut) {
    if ((static_cast<unsigned char>(spelled[cut]) & 0xC0u) == 0x80u) continue;  // within a character of the alphabet
    const auto left = spec.id_of.find(spelled.substr(0, cut));
    if (left == spec.id_of.end()) continue;
    const auto right = spec.id_of.find(spelled.substr(cut));
    if (right != spec.id_of.end()) spec.merges.push_back({left->second, right->second, token});
  }
  NIBBLE_REQUIRE(spec.merges.size() <= kMostMerges, FormatError,
                 "{}: tokens can be made of others in more than {} ways", spec.where, kMostMerges);
  std::sort(spec.merges.begin() + static_cast<std::ptrdiff_t>(first), spec.merges.end(),
            [](const auto& a, const auto& b) { return a.left < b.left; });
}

std::optional<TokenId> special_token(const TokenizerSpec& spec, std::string_view content) {
  const auto found = std::find_if(spec.added.begin(), spec.added.end(),
                                  [&](const AddedToken& token) { return token.content == content; });
  return found == spec.added.end() ? std::nullopt : std::optional(found->id);
}

}  // namespace

TokenizerSpec read_tekken_file(const std::filesystem::path& path, const TokenizerConfig& config) {
  TokenizerSpec spec;
  spec.where = path.string();
  const nlohmann::json json = parse_strict_json(read_text_file(path), spec.where);
  const JsonFields file(json, spec.where), settings = file.object("config");
  const std::uint64_t size = settings.integer("default_vocab_size", 2, kMaxVocabulary);
  const std::uint64_t special =
      settings.integer("default_num_special_tokens", 1, std::min(size - 1, kMostSpecialTokens));
  set_special_tokens(spec, file, special);
  join_added_tokens(spec.added, config, spec.where);
  NIBBLE_REQUIRE(spec.added.size() == special, FormatError,
                 "{}: tokenizer_config.json has added token {}, but special tokens have ids below {}", spec.where,
                 spec.added.back().id, special);
  check_added_tokens(spec, spec.where);
  std::vector<Kind> kinds(size, Kind::kNormal);
  std::fill_n(kinds.begin(), special, Kind::kControl);
  set_tokens(spec, read_tokens(spec, file, size), std::move(kinds));
  for (auto token = static_cast<TokenId>(special); token < size; ++token) add_merges(spec, token);
  spec.ignore_merges = true;
  spec.pre_tokenizer.emplace_back(SplitStep{.pattern = settings.filled_text("pattern")});
  spec.pre_tokenizer.emplace_back(ByteLevelStep{.add_prefix_space = false, .use_regex = false});
  spec.decoder.emplace_back(ByteLevelDecoderStep{});
  if (const auto bos = special_token(spec, "<s>")) spec.added_prefix = {*bos};
  spec.eos = special_token(spec, "</s>");
  apply_tokenizer_config(spec, config);
  return spec;
}

}  // namespace nibble::model

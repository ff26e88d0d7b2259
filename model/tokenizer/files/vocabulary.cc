#include "model/tokenizer/files/vocabulary.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/text/excerpt.h"
#include "core/text/json.h"

namespace nibble::model {
namespace {

constexpr std::uint64_t kMaxHoles = 1u << 16;                 // each takes some seventy bytes that no file pays for
constexpr std::size_t kMaxAddedBytes = std::size_t{4} << 20;  // searching for them takes about 50 bytes for each

}  // namespace

void set_vocabulary(TokenizerSpec& spec, const nlohmann::json& vocabulary, const std::string& where) {
  NIBBLE_REQUIRE(vocabulary.is_object() && !vocabulary.empty(), FormatError,
                 "{}: the vocabulary must be an object with a token or more", where);
  std::uint64_t size = 0;  // one past the largest id
  for (const auto& [token, id] : vocabulary.items()) {
    NIBBLE_REQUIRE(id.is_number_unsigned() && id.get<std::uint64_t>() < kMaxVocabulary, FormatError,
                   "{}: the id of token {} must be a whole number below {}, got {}", where, in_quotes(token),
                   kMaxVocabulary, in_quotes(id.dump()));
    size = std::max(size, id.get<std::uint64_t>() + 1);
  }
  for (const AddedToken& token : spec.added) size = std::max(size, std::uint64_t{token.id} + 1);
  const std::uint64_t known = vocabulary.size() + spec.added.size();
  NIBBLE_REQUIRE(size <= known + kMaxHoles, FormatError,
                 "{}: ids go up to {}, but there are at most {} tokens: more than {} ids have none", where, size - 1,
                 known, kMaxHoles);

  spec.tokens.resize(size);
  std::vector<bool> taken(size);
  for (const auto& [token, id_json] : vocabulary.items()) {
    const auto id = id_json.get<TokenId>();
    NIBBLE_REQUIRE(!taken[id], FormatError, "{}: tokens {} and {} have the same id {}", where,
                   in_quotes(spec.tokens[id]), in_quotes(token), id);
    taken[id] = true;
    spec.tokens[id] = token;
  }
  spec.id_of.reserve(vocabulary.size());
  for (std::size_t id = 0; id < size; ++id) {
    if (taken[id]) spec.id_of.emplace(spec.tokens[id], static_cast<TokenId>(id));
  }

  std::sort(spec.added.begin(), spec.added.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  check_added_tokens(spec, where);
  std::uint64_t next = vocabulary.size();  // what the next added token that the vocabulary lacks is given elsewhere
  for (const AddedToken& token : spec.added) {
    const auto model_id = spec.id_of.find(token.content);
    NIBBLE_REQUIRE(model_id == spec.id_of.end() || model_id->second == token.id, FormatError,
                   "{}: added token {} has id {}, but {} in the vocabulary", where, in_quotes(token.content), token.id,
                   model_id == spec.id_of.end() ? token.id : model_id->second);
    NIBBLE_REQUIRE(!taken[token.id] || spec.tokens[token.id] == token.content, FormatError,
                   "{}: tokens {} and {} have the same id {}", where, in_quotes(spec.tokens[token.id]),
                   in_quotes(token.content), token.id);
    NIBBLE_REQUIRE(model_id != spec.id_of.end() || token.id == next, FormatError,
                   "{}: added token {} has id {}, but Hugging Face's tokenizers gives it {}: ids of no token need all "
                   "added ones in the vocabulary",
                   where, in_quotes(token.content), token.id, next);
    if (model_id == spec.id_of.end()) ++next;
    taken[token.id] = true;
    spec.tokens[token.id] = token.content;
  }
  if (std::find(taken.begin(), taken.end(), false) == taken.end()) return;
  using Kind = TokenizerSpec::PieceKind;
  for (const bool is_token : taken) spec.kinds.push_back(is_token ? Kind::kNormal : Kind::kUnused);
}

void set_tokens(TokenizerSpec& spec, std::vector<std::string> tokens, std::vector<TokenizerSpec::PieceKind> kinds) {
  using Kind = TokenizerSpec::PieceKind;
  NIBBLE_REQUIRE(!tokens.empty() && tokens.size() <= kMaxVocabulary, FormatError,
                 "{}: {} tokens are not between 1 and {}", spec.where, tokens.size(), kMaxVocabulary);
  NIBBLE_REQUIRE(kinds.empty() || kinds.size() == tokens.size(), FormatError, "{}: {} kinds for {} tokens", spec.where,
                 kinds.size(), tokens.size());
  spec.tokens = std::move(tokens);
  spec.kinds = std::move(kinds);
  spec.id_of.clear();
  spec.id_of.reserve(spec.tokens.size());
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const Kind kind = spec.kind(id);
    if (kind == Kind::kControl || kind == Kind::kUnknown) continue;
    spec.id_of.insert_or_assign(spec.tokens[id], id);
  }
}

void append_added_tokens(TokenizerSpec& spec, std::vector<std::string>& tokens,
                         std::vector<TokenizerSpec::PieceKind>& kinds) {
  std::sort(spec.added.begin(), spec.added.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  check_added_tokens(spec, spec.where);
  kinds.resize(tokens.size(), TokenizerSpec::PieceKind::kNormal);
  for (const AddedToken& token : spec.added) {
    NIBBLE_REQUIRE(token.id <= tokens.size(), FormatError, "{}: no token has the id {}, though ids go up to {}",
                   spec.where, tokens.size(), token.id);
    if (token.id == tokens.size()) {
      tokens.push_back(token.content);
      kinds.push_back(TokenizerSpec::PieceKind::kControl);
    }
    NIBBLE_REQUIRE(tokens[token.id] == token.content, FormatError, "{}: tokens {} and {} have the same id {}",
                   spec.where, in_quotes(tokens[token.id]), in_quotes(token.content), token.id);
  }
}

void check_added_tokens(const TokenizerSpec& spec, const std::string& where) {
  std::set<std::string_view> contents;
  std::size_t content_bytes = 0;
  for (const AddedToken& token : spec.added) {
    content_bytes += token.content.size();
    NIBBLE_REQUIRE(content_bytes <= kMaxAddedBytes, FormatError, "{}: the added tokens have more than {} bytes in all",
                   where, kMaxAddedBytes);
    NIBBLE_REQUIRE(!token.content.empty(), FormatError, "{}: added token {} has no content", where, token.id);
    NIBBLE_REQUIRE(contents.insert(token.content).second, FormatError, "{}: added token {} is there twice", where,
                   in_quotes(token.content));
  }
}

void add_merge(TokenizerSpec& spec, std::string_view left, std::string_view right, const std::string& where) {
  const auto id = [&](std::string_view token) {
    const auto found = spec.id_of.find(token);
    NIBBLE_REQUIRE(found != spec.id_of.end(), FormatError, "{}: merge {} of {} and {}: {} is not in the vocabulary",
                   where, spec.merges.size(), in_quotes(left), in_quotes(right), in_quotes(token));
    return found->second;
  };
  spec.merges.push_back({id(left), id(right), id(std::string(left).append(right))});
}

TokenId require_token(const TokenizerSpec& spec, std::string_view token, std::string_view role) {
  if (const auto found = spec.id_of.find(token); found != spec.id_of.end()) return found->second;
  const auto added = std::find_if(spec.added.begin(), spec.added.end(),
                                  [&](const AddedToken& candidate) { return candidate.content == token; });
  if (added != spec.added.end()) return added->id;
  // Control pieces, which no text is cut into.
  const auto piece = token.empty() ? spec.tokens.end()  // what ids of no token are spelled
                                   : std::find(spec.tokens.begin(), spec.tokens.end(), token);
  NIBBLE_REQUIRE(piece != spec.tokens.end(), FormatError, "{}: {} {} is not in the vocabulary", spec.where, role,
                 in_quotes(token));
  return static_cast<TokenId>(piece - spec.tokens.begin());
}

}  // namespace nibble::model

#include "model/tokenizer/words/piece_merges.h"

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "model/tokenizer/utf8.h"

namespace nibble::model {
namespace {

using PieceKind = TokenizerSpec::PieceKind;
constexpr std::size_t kMaxPieceBytes = 1024;

std::size_t character_length(std::string_view text, std::size_t pos) {
  return std::max<std::size_t>(decode_utf8(text, pos).length, 1);
}

/// By id: 0 for the highest score, 1 for the next …; equal scores have equal ranks.
std::vector<std::uint32_t> ranks_of(const std::vector<double>& scores) {
  std::vector<double> sorted = scores;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<std::uint32_t> ranks(scores.size());
  for (std::size_t id = 0; id < scores.size(); ++id) {
    const auto at = std::lower_bound(sorted.begin(), sorted.end(), scores[id], std::greater<>());
    ranks[id] = static_cast<std::uint32_t>(at - sorted.begin());
  }
  return ranks;
}

class Builder {
 public:
  explicit Builder(const TokenizerSpec& spec) : spec_(spec), rank_(ranks_of(spec.scores)) {}

  PieceMerges build() {
    for (std::size_t id = 0; id < spec_.tokens.size(); ++id) {
      const PieceKind kind = spec_.kind(static_cast<TokenId>(id));
      if (kind == PieceKind::kNormal || kind == PieceKind::kUnused) add(static_cast<TokenId>(id), kind);
    }
    return std::move(result_);
  }

 private:
  void add(TokenId id, PieceKind kind) {
    const std::string_view piece = spec_.tokens[id];
    const auto listed = spec_.id_of.find(piece);
    if (listed == spec_.id_of.end() || listed->second != id) return;  // another token of this spelling counts
    NIBBLE_REQUIRE(piece.size() <= kMaxPieceBytes, FormatError, "{}: token {} has {} bytes, more than {}", spec_.where,
                   id, piece.size(), kMaxPieceBytes);
    for (std::size_t cut = 0; cut < piece.size();) {
      cut += character_length(piece, cut);
      if (cut >= piece.size()) break;
      const auto left = half(piece.substr(0, cut));
      const auto right = left ? half(piece.substr(cut)) : std::nullopt;
      if (!right) continue;
      NIBBLE_REQUIRE(kind != PieceKind::kUnused, FormatError,
                     "{}: token {} is unused, but pieces merge into it, which is not supported", spec_.where, id);
      result_.merges.push_back({{*left, *right, id}, rank_[id]});
    }
  }

  /// The id of half a piece, if a word can be cut so: a piece or a single character.
  std::optional<TokenId> half(std::string_view text) {
    if (const auto found = spec_.id_of.find(text); found != spec_.id_of.end()) {
      const PieceKind kind = spec_.kind(found->second);
      if (kind == PieceKind::kNormal || kind == PieceKind::kUnused) return found->second;
      if (kind == PieceKind::kUserDefined) return std::nullopt;  // those never merge
    }
    if (character_length(text, 0) < text.size()) return std::nullopt;
    const auto next = static_cast<TokenId>(spec_.tokens.size() + result_.characters.size());
    return result_.characters.try_emplace(text, next).first->second;
  }

  const TokenizerSpec& spec_;
  std::vector<std::uint32_t> rank_;
  PieceMerges result_;
};

}  // namespace

PieceMerges piece_merges(const TokenizerSpec& spec) { return Builder(spec).build(); }

}  // namespace nibble::model

#include "model/tokenizer/words/unigram.h"

#include <algorithm>
#include <cfloat>
#include <limits>
#include <type_traits>

#include "core/error.h"
#include "model/tokenizer/utf8.h"

namespace nibble::model {
namespace {

using PieceKind = TokenizerSpec::PieceKind;

constexpr double kUnknownPenalty = 10.0;
constexpr float kLowestSum = -65536.0f;

bool is_found(const TokenizerSpec& spec, TokenId id) {
  if (!spec.sentencepiece_arithmetic) return true;
  const PieceKind kind = spec.kind(id);
  return kind == PieceKind::kNormal || kind == PieceKind::kUserDefined;
}

}  // namespace

Unigram::Unigram(const TokenizerSpec& spec)
    : spec_(spec), byte_ids_(spec, false), unknown_(spec.unknown.value_or(static_cast<TokenId>(spec.tokens.size()))) {
  double lowest = spec.sentencepiece_arithmetic ? double{FLT_MAX} : std::numeric_limits<double>::infinity();
  max_score_ = FLT_MIN;  // SentencePiece starts from the smallest positive number, not from the lowest
  for (const auto& [token, id] : spec.id_of) {
    if (token.empty() || !is_found(spec, id)) continue;
    trie_.insert(token, id);
    longest_ = std::max(longest_, token.size());
  }
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (spec.sentencepiece_arithmetic && spec.kind(id) != PieceKind::kNormal) continue;
    lowest = std::min(lowest, spec.scores[id]);
    max_score_ = std::max(max_score_, static_cast<float>(spec.scores[id]));
  }
  unknown_score_ = lowest - kUnknownPenalty;
  if (spec.sentencepiece_arithmetic) {
    unknown_score_ = static_cast<double>(static_cast<float>(lowest) - static_cast<float>(kUnknownPenalty));
  }
}

double Unigram::score_of(TokenId id, std::size_t length) const {
  if (spec_.sentencepiece_arithmetic && spec_.kind(id) == PieceKind::kUserDefined) {
    return static_cast<double>(static_cast<float>(length) * max_score_) - 0.1;
  }
  return spec_.scores[id];
}

template <class Real>
void Unigram::find_best(std::string_view word, std::vector<Scratch::Arrival<Real>>& arrivals) const {
  arrivals.assign(word.size() + 1, {});
  for (std::size_t begin = 0; begin < word.size();) {
    const Real score_here = arrivals[begin].score;
    const std::size_t character = std::max<std::size_t>(decode_utf8(word, begin).length, 1);
    const auto arrive = [&](std::size_t end, Real score, TokenId id) {
      Scratch::Arrival<Real>& arrival = arrivals[end];
      if (arrival.begin != Scratch::kEnd && score <= arrival.score) return;
      arrival = {score, static_cast<std::uint32_t>(begin), id};
    };
    bool has_single = false;
    trie_.for_each_prefix(word.substr(begin), [&](std::size_t length, TokenId id) {
      arrive(begin + length, score_here + static_cast<Real>(score_of(id, length)), id);
      has_single = has_single || length == character;
    });
    if (!has_single) {
      arrive(begin + character, score_here + static_cast<Real>(unknown_score_), unknown_);
    }
    begin += character;
    // Sums of a long text leave a float no digits for the difference between two ways. What all ways so far have in
    // common is taken off those ahead; a difference of neighbouring floats is exact.
    if constexpr (std::is_same_v<Real, float>)
      if (score_here < kLowestSum)
        for (std::size_t end = begin; end <= std::min(word.size(), begin + longest_); ++end)
          if (arrivals[end].begin != Scratch::kEnd) arrivals[end].score -= score_here;
  }
}

void Unigram::append_unknown(std::string_view text, std::vector<TokenId>& ids) const {
  if (!spec_.sentencepiece_arithmetic) {  // several unknown characters together may be a token
    if (const auto id = spec_.id_of.find(text); id != spec_.id_of.end()) {
      ids.push_back(id->second);
      return;
    }
  }
  if (spec_.byte_fallback && byte_ids_.spell(text, [&](TokenId id) { ids.push_back(id); })) return;
  if (!spec_.unknown) throw_no_token(spec_.where, text);
  ids.push_back(*spec_.unknown);
}

template <class Real>
void Unigram::append(std::string_view word, const std::vector<Scratch::Arrival<Real>>& arrivals,
                     std::vector<TokenId>& ids) const {
  // Backwards along the best way; a run of unknown characters is spelled forwards, so its ids are reversed for now.
  const std::size_t first = ids.size();
  for (std::size_t end = word.size(); end > 0;) {
    std::size_t begin = arrivals[end].begin;
    const TokenId id = arrivals[end].id;
    if (id != unknown_) {
      ids.push_back(id);
      end = begin;
      continue;
    }
    while (begin > 0 && arrivals[begin].id == unknown_) begin = arrivals[begin].begin;
    const std::size_t before = ids.size();
    append_unknown(word.substr(begin, end - begin), ids);
    std::reverse(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end());
    end = begin;
  }
  std::reverse(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end());
}

void Unigram::encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const {
  NIBBLE_REQUIRE(word.size() < Scratch::kEnd, InvalidArgument, "encode: a word of {} bytes is too long", word.size());
  if (spec_.sentencepiece_arithmetic) {
    find_best(word, scratch.float_arrivals);
    append(word, scratch.float_arrivals, ids);
  } else {
    find_best(word, scratch.arrivals);
    append(word, scratch.arrivals, ids);
  }
}

}  // namespace nibble::model

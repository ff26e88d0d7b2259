#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/random.h"
#include "model/tokenizer/spec.h"
#include "model/tokenizer/utf8.h"
#include "model/tokenizer/words/word_model.h"

namespace nibble::model::test {

/// A spec without byte-level spelling: single characters of `alphabet` and random merges of what is there already.
inline TokenizerSpec random_spec(Random& random, std::string_view alphabet, std::size_t merges) {
  std::vector<std::string> tokens;
  for (std::size_t pos = 0; pos < alphabet.size();) {
    const std::size_t length = decode_utf8(alphabet, pos).length;
    tokens.emplace_back(alphabet.substr(pos, length));
    pos += length;
  }
  std::set<std::string> known(tokens.begin(), tokens.end());
  TokenizerSpec spec;
  while (spec.merges.size() < merges) {
    const auto left = static_cast<TokenId>(random.below(tokens.size()));
    const auto right = static_cast<TokenId>(random.below(tokens.size()));
    if (!known.insert(tokens[left] + tokens[right]).second) continue;
    spec.merges.push_back({left, right, static_cast<TokenId>(tokens.size())});
    tokens.push_back(tokens[left] + tokens[right]);
  }
  spec.tokens = std::move(tokens);
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) spec.id_of.emplace(spec.tokens[id], id);
  return spec;
}

inline std::string random_word(Random& random, std::string_view alphabet, std::size_t characters) {
  std::vector<std::string_view> letters;
  for (std::size_t pos = 0; pos < alphabet.size(); pos += letters.back().size()) {
    letters.push_back(alphabet.substr(pos, decode_utf8(alphabet, pos).length));
  }
  std::string word;
  for (std::size_t i = 0; i < characters; ++i) word += letters[random.below(letters.size())];
  return word;
}

inline std::vector<TokenId> encode(const WordModel& model, std::string_view word) {
  WordModel::Scratch scratch;
  std::vector<TokenId> ids;
  model.encode(word, scratch, ids);
  return ids;
}

}  // namespace nibble::model::test

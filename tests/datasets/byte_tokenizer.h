#pragma once

#include <string>
#include <vector>

#include "model/tokenizer/tokenizer.h"

namespace nibble::test {

/// Every byte is a token: windows of a text are then substrings of it.
class ByteTokenizer final : public model::Tokenizer {
 public:
  std::vector<TokenId> encode(std::string_view text) const override {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string decode(std::span<const TokenId> ids) const override {
    std::string text;
    for (const TokenId id : ids) text += static_cast<char>(id);
    return text;
  }
  std::size_t vocabulary_size() const override { return 256; }
  std::vector<TokenId> added_prefix() const override { return {}; }
  std::optional<TokenId> eos() const override { return std::nullopt; }
  std::string fingerprint() const override { return "bytes"; }
  std::size_t byte_length(TokenId) const override { return 1; }
};

}  // namespace nibble::test

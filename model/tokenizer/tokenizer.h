#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/token_id.h"

namespace nibble::model {

/// What Tokenizer::open() looks for, in this order, for messages.
inline constexpr std::string_view kTokenizerFiles =
    "tokenizer.json, vocab.json and merges.txt, tekken.json, or tokenizer.model";

/// Text to token ids and back, as Hugging Face's tokenizers and SentencePiece do it: BPE and Unigram vocabularies with
/// their normalizers, pre-tokenizers, added tokens and decoders. Immutable: threads may share it.
class Tokenizer {
 public:
  /// Reads tokenizer.json, or vocab.json + merges.txt (then GPT-2's rules), or tekken.json (Mistral's), or
  /// tokenizer.model (SentencePiece), the first that is there, and tokenizer_config.json if there. Throws FormatError
  /// naming file and what is wrong; unsupported parts are named, never ignored silently.
  static std::shared_ptr<const Tokenizer> open(const std::filesystem::path& directory);
  virtual ~Tokenizer() = default;

  /// Token ids of `text` (UTF-8; invalid bytes are tokenized as bytes where the vocabulary has them). Added tokens are
  /// recognised in the text. No BOS or EOS is added.
  virtual std::vector<TokenId> encode(std::string_view text) const = 0;
  /// The text of `ids`. Special tokens are written out. Throws InvalidArgument for an id >= vocabulary_size().
  virtual std::string decode(std::span<const TokenId> ids) const = 0;
  /// One past the largest id.
  virtual std::size_t vocabulary_size() const = 0;
  /// What the tokenizer puts before a text when it encodes for the model (post-processor or add_bos_token): a BOS, or
  /// several tokens (GLM: [gMASK]<sop>), of which none counts as one, or nothing.
  virtual std::vector<TokenId> added_prefix() const = 0;
  /// The BOS id, if that is all that goes before a text.
  std::optional<TokenId> added_bos() const {
    const std::vector<TokenId> prefix = added_prefix();
    return prefix.size() == 1 ? std::optional(prefix.front()) : std::nullopt;
  }
  /// added_prefix() and the ids of `text`: what a model goes on with.
  std::vector<TokenId> encode_prompt(std::string_view text) const {
    std::vector<TokenId> ids = added_prefix();
    const std::vector<TokenId> own = encode(text);
    ids.insert(ids.end(), own.begin(), own.end());
    return ids;
  }
  virtual std::optional<TokenId> eos() const = 0;
  /// Hash of everything that decides encode(): vocabulary, merges, added tokens, pattern, normalisation.
  virtual std::string fingerprint() const = 0;
  /// How many bytes of UTF-8 text each id stands for (its own share of the text: special tokens 0).
  virtual std::size_t byte_length(TokenId id) const = 0;
  /// The same, and 0 for ids behind the vocabulary: rows that pad an embedding are no text, but models give them.
  std::size_t byte_length_if_known(TokenId id) const { return id < vocabulary_size() ? byte_length(id) : 0; }
};

}  // namespace nibble::model

#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "model/tokenizer/merge_table.h"
#include "model/tokenizer/spec.h"

namespace nibble::model {

/// Byte-pair encoding of single words (Sennrich et al. 2016): of all neighbours that have a merge, the pair with the
/// earliest merge (leftmost of equals) becomes one token, until none has. Immutable: threads may share it.
class Bpe {
 public:
  /// Memory for one word at a time; keep it from word to word.
  class Scratch {
   public:
    /// Gives back the memory that an unusually long word took.
    void forget_large() {
      if (symbols.capacity() > kKeptSymbols) *this = Scratch();
    }

   private:
    friend class Bpe;
    static constexpr std::size_t kKeptSymbols = 65536;
    static constexpr std::uint32_t kEnd = std::numeric_limits<std::uint32_t>::max();
    struct Symbol {
      TokenId id;
      std::uint32_t previous;
      std::uint32_t next;
    };
    std::vector<Symbol> symbols;
    std::vector<std::uint64_t> queue;  // a min-heap of rank << 32 | position of the left symbol
  };

  /// `spec` must outlive this. `byte_level`: see PreTokenizer.
  Bpe(const TokenizerSpec& spec, bool byte_level);

  /// Appends the ids of `word`. Cost O(n log n) for n bytes. Throws FormatError if the vocabulary has nothing for a
  /// character, and InvalidArgument for a word of 4 GiB.
  void encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const;

 private:
  void start_with_bytes(std::string_view word, Scratch& scratch) const;
  void start_with_characters(std::string_view word, Scratch& scratch) const;
  void merge(Scratch& scratch) const;
  [[noreturn]] void throw_no_token(std::string_view character) const;

  const TokenizerSpec& spec_;
  bool byte_level_;
  std::array<std::optional<TokenId>, 256> byte_ids_;  // of single bytes, byte-level or fallback
  bool falls_back_to_bytes_ = false;
  MergeTable merges_;
};

}  // namespace nibble::model

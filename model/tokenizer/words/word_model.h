#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "core/token_id.h"

namespace nibble::model {

/// Cuts one word into tokens. Immutable: threads may share it.
class WordModel {
 public:
  /// Memory for one word at a time; keep it from word to word.
  struct Scratch {
    static constexpr std::uint32_t kEnd = std::numeric_limits<std::uint32_t>::max();
    struct Symbol {
      TokenId id;
      std::uint32_t previous;
      std::uint32_t next;
    };
    /// The best way to an end of a token.
    template <class Real>
    struct Arrival {
      Real score = 0;
      std::uint32_t begin = kEnd;  // of its last token; kEnd: nothing ends here
      TokenId id = 0;
    };
    std::vector<Symbol> symbols;
    std::vector<std::uint32_t> starts;  // of the symbols in the word
    std::vector<std::uint64_t> queue;   // a min-heap of rank << 32 | position of the left symbol
    std::vector<Arrival<double>> arrivals;
    std::vector<Arrival<float>> float_arrivals;

    /// Gives back the memory that an unusually long word took.
    void forget_large() {
      constexpr std::size_t kKept = 65536;
      if (symbols.capacity() > kKept || arrivals.capacity() > kKept || float_arrivals.capacity() > kKept) *this = {};
    }
  };

  virtual ~WordModel() = default;
  /// Appends the ids of `word`. Throws FormatError if the vocabulary has nothing for a character, and InvalidArgument
  /// for a word of 4 GiB.
  virtual void encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const = 0;
};

/// FormatError: "`where`: the vocabulary has no token for the bytes … and no unk_token".
[[noreturn]] void throw_no_token(std::string_view where, std::string_view character);

}  // namespace nibble::model

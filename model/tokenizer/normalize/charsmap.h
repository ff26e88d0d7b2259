#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::model {

/// SentencePiece's compiled normalisation rules ("precompiled_charsmap"): a double-array trie (darts-clone's layout) of
/// texts to be replaced, and what replaces them. Four bytes of the trie's size, its units of four bytes, and the
/// replacements, each ended by a zero byte; all little-endian. Every access is checked.
class Charsmap {
 public:
  /// Throws FormatError naming `where` if the sizes do not fit together.
  Charsmap(std::string_view blob, const std::string& where);

  struct Rule {
    std::size_t length = 0;  // of the text that is replaced; 0: no rule
    std::string_view replacement;
  };
  /// The longest rule that `text` starts with. Throws FormatError for a rule that leads out of the table.
  Rule longest_rule(std::string_view text) const;
  /// True if some rule may start with this byte.
  bool may_start(char byte) const;

 private:
  std::string where_;
  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace nibble::model

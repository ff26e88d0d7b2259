#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace nibble::model {

/// Cuts at the matches of a pattern.
struct SplitStep {
  enum class Behavior { kIsolated, kRemoved };  // matches become words of their own, or vanish
  std::string pattern;
  bool literal = false;  // not a regex
  Behavior behavior = Behavior::kIsolated;
  bool invert = false;  // what lies between matches is treated as a match, and the other way round
};
/// The words' bytes are what BPE merges; with `use_regex`, cuts by GPT-2's pattern first.
struct ByteLevelStep {
  bool add_prefix_space = false;
  bool use_regex = true;
};
/// Spells spaces as `replacement`, puts one in front, and cuts before each if `split`.
struct MetaspaceStep {
  enum class Prepend { kAlways, kFirst, kNever };  // kFirst: only at the very start of the text
  std::string replacement;
  Prepend prepend = Prepend::kAlways;
  bool split = true;
};
using PreTokenizerStep = std::variant<SplitStep, ByteLevelStep, MetaspaceStep>;

using WordSink = std::function<void(std::string_view word)>;

/// Cuts a text into the words that BPE sees. Immutable: threads may share it.
///
/// Regexes see each stretch of valid UTF-8 as if it were the whole text; a run of other bytes between them is a word of
/// its own, whatever the pattern says.
class PreTokenizer {
 public:
  class Stage;

  /// Steps apply in order, each to the words of the one before. `where` names the origin in messages. Throws
  /// FormatError for a pattern that does not compile, and if a step follows ByteLevelStep.
  PreTokenizer(const std::vector<PreTokenizerStep>& steps, const std::string& where);
  ~PreTokenizer();

  /// True if words are to be merged byte by byte, and the vocabulary is spelled in GPT-2's byte alphabet.
  bool byte_level() const { return byte_level_; }
  /// `starts_text`: nothing was before `text`. Words live until on_word() returns. Throws FormatError if a pattern
  /// exceeds its limits on this text.
  void split(std::string_view text, bool starts_text, const WordSink& on_word) const;

 private:
  void run(std::size_t stage, std::string_view text, bool starts_text, const WordSink& on_word) const;

  std::vector<std::unique_ptr<const Stage>> stages_;
  bool byte_level_ = false;
};

}  // namespace nibble::model

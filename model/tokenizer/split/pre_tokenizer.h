#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/steps.h"

namespace nibble::model {

using WordSink = std::function<void(std::string_view word)>;

/// Cuts a text into words, in stages. Immutable: threads may share it.
///
/// Regexes see each stretch of valid UTF-8 as if it were the whole text; a run of other bytes between them is a word of
/// its own, whatever the pattern says.
class PreTokenizer {
 public:
  class Stage;
  /// What ByteLevelStep does where it is the last step: spell the bytes, or leave them for a vocabulary that is looked
  /// up byte by byte (see byte_level()).
  enum class LastByteLevel { kSpelled, kLeftAsBytes };

  /// Steps apply in order, each to the words of the one before. `where` names the origin in messages. Throws
  /// FormatError for a pattern that does not compile.
  PreTokenizer(const std::vector<PreTokenizerStep>& steps, const std::string& where,
               LastByteLevel last = LastByteLevel::kLeftAsBytes);
  ~PreTokenizer();

  /// True if words are to be merged byte by byte, and the vocabulary is spelled in GPT-2's byte alphabet.
  bool byte_level() const { return byte_level_; }
  std::size_t stages() const { return stages_.size(); }
  /// The words of one stage. `starts_text`: nothing was before `text`. Words live until on_word() returns. Throws
  /// FormatError if a pattern exceeds its limits on this text.
  void run_stage(std::size_t stage, std::string_view text, bool starts_text, const WordSink& on_word) const;
  /// Whether `word`, the first that the stage made of `text`, has what that begins with: splits may drop it.
  bool keeps_start(std::size_t stage, std::string_view text, std::string_view word) const;
  /// The words of all stages.
  void split(std::string_view text, bool starts_text, const WordSink& on_word) const;

 private:
  void run_from(std::size_t stage, std::string_view text, bool starts_text, const WordSink& on_word) const;

  std::vector<std::unique_ptr<const Stage>> stages_;
  bool byte_level_ = false;
};

}  // namespace nibble::model

#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "core/token_id.h"

namespace nibble::model {

// What happens to a text on its way to ids and back, as values: what the files say, and what TokenizerSpec is made of.
// Patterns are regular expressions in Oniguruma's syntax (see split/oniguruma.h) unless they are `literal`.

/// A token that is recognised in the text itself, before anything is cut or merged.
struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;      // control, not text
  bool left_strip = false;   // takes the white space before it along
  bool right_strip = false;  // and after it
  bool single_word = false;  // not beside a letter, a number or '_'
  bool normalized = false;   // looked for, normalised itself, in the normalised text, after those that are not
};

// ---- normalizers: before the text is cut into words

/// Puts `text` before every text that is not empty.
struct PrependStep {
  std::string text;
};
/// Replaces every match of `pattern` (not empty), leftmost first.
struct ReplaceStep {
  std::string pattern;
  std::string to;
  bool literal = true;
};
/// Unicode normalisation form.
struct UnicodeFormStep {
  enum class Form { kNfc, kNfd, kNfkc, kNfkd };
  Form form = Form::kNfc;
};
/// Lower case, character by character.
struct LowercaseStep {};
/// Drops combining marks (of all three kinds: Mn, Mc, Me).
struct StripAccentsStep {};
/// Drops white space at the text's ends.
struct StripSpaceStep {
  bool left = true;
  bool right = true;
};
/// SentencePiece's normalisation: rules from a compiled table, and spaces spelled '▁' (U+2581).
struct SentencePieceStep {
  std::string charsmap;                   // precompiled_charsmap; empty: no rules
  bool add_dummy_prefix = true;           // a space before the text
  bool remove_extra_whitespaces = true;   // none at the ends, one where there are several
  bool escape_whitespaces = true;         // spelled '▁'
  bool whitespace_as_suffix = false;      // the added space goes behind the text
  std::vector<std::string> user_defined;  // stay as they are
};
using NormalizerStep = std::variant<PrependStep, ReplaceStep, UnicodeFormStep, LowercaseStep, StripAccentsStep,
                                    StripSpaceStep, SentencePieceStep>;

// ---- pre-tokenizers: cut a text into words

/// Cuts at the matches of a pattern.
struct SplitStep {
  enum class Behavior {
    kIsolated,            // a match is a word of its own
    kRemoved,             // a match vanishes
    kMergedWithPrevious,  // a match joins what is before it
    kMergedWithNext,      // or after it
    kContiguous           // adjacent matches are one word
  };
  std::string pattern;
  bool literal = false;  // not a regex
  Behavior behavior = Behavior::kIsolated;
  bool invert = false;  // what lies between matches is treated as a match, and the other way round
};
/// Spells the words' bytes in GPT-2's byte alphabet; with `use_regex`, cuts by GPT-2's pattern first.
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

// ---- decoders: tokens back to text

/// Tokens are spelled in GPT-2's byte alphabet.
struct ByteLevelDecoderStep {};
/// Tokens <0x00> … <0xFF> are bytes.
struct ByteFallbackStep {};
/// The tokens become one text; later steps see that.
struct FuseStep {};
/// Removes up to `start` times `content` from the front and up to `stop` times from the end.
struct StripStep {
  std::string content;
  std::size_t start = 0;
  std::size_t stop = 0;
};
/// Tokens spell spaces as `replacement`; those of the text's first token were put there by the encoder.
struct MetaspaceDecoderStep {
  std::string replacement;
  bool drop_leading = true;
};
/// Tokens spell spaces as '▁' (U+2581), as SentencePiece does. With `drop_first` the one that the text's first token
/// begins with is dropped, with `drop_more` also those of the tokens after it as long as there is no text yet.
struct SentencePieceDecoderStep {
  bool drop_first = true;
  bool drop_more = false;
};
using DecoderStep = std::variant<ByteLevelDecoderStep, ByteFallbackStep, FuseStep, StripStep, MetaspaceDecoderStep,
                                 ReplaceStep, SentencePieceDecoderStep>;

}  // namespace nibble::model

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/token_id.h"
#include "model/tokenizer/steps.h"

namespace nibble::model {

/// Everything that a tokenizer is, as values. Readers of files fill one and pass it to make_tokenizer()
/// (model/tokenizer/pipeline.h). By hand:
///
/// Byte-level BPE (GPT-2, Llama 3, Qwen2 …; GGUF's model "gpt2"):
///     spec.where = "FILE";
///     set_tokens(spec, tokens, kinds);            // vocabulary.h; tokens spelled in GPT-2's byte alphabet
///     for (merge : merges) add_merge(spec, left, right, spec.where);
///     spec.ignore_merges = …;                     // Llama 3: true
///     spec.added = {{.id = 128000, .content = "<|begin_of_text|>", .special = true}, …};
///     spec.normalizer = {UnicodeFormStep{}};      // NFC, where the model wants it
///     for (pattern : patterns) spec.pre_tokenizer.push_back(SplitStep{.pattern = pattern});
///     spec.pre_tokenizer.push_back(ByteLevelStep{.add_prefix_space = false, .use_regex = false});
///     spec.decoder = {ByteLevelDecoderStep{}};
///
/// SentencePiece BPE (Llama 2, Mistral …; GGUF's model "llama"):
///     spec.model = TokenizerSpec::Model::kScoredBpe;
///     set_tokens(spec, tokens, kinds);            // kinds: GGUF's token_type, by PieceKind's numbers
///     spec.scores = {scores.begin(), scores.end()};
///     spec.byte_fallback = true;
///     spec.unknown = 0;
///     spec.added = …;                             // the control and user-defined tokens that texts may contain
///     if (add_space_prefix) spec.normalizer.push_back(PrependStep{" "});   // before each text between added tokens
///     spec.normalizer.push_back(ReplaceStep{.pattern = " ", .to = "▁"});
///     spec.decoder = {ReplaceStep{.pattern = "▁", .to = " "}, ByteFallbackStep{}, FuseStep{},
///                     StripStep{.content = " ", .start = 1}};              // the last if add_space_prefix
///
/// Then spec.added_prefix and spec.eos.
struct TokenizerSpec {
  enum class Model {
    kBpe,        // merges in the order of a list
    kScoredBpe,  // SentencePiece: two neighbours merge if their text is a token, that of the highest score first
    kUnigram     // the cut of the greatest sum of scores
  };
  /// What a token of a SentencePiece vocabulary is. SentencePiece's own numbers, and GGUF's.
  enum class PieceKind : std::uint8_t {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,      // never found in a text
    kUserDefined = 4,  // found as it is before anything is merged
    kUnused = 5,       // never found in a text
    kByte = 6          // <0x00> … <0xFF>, never found in a text
  };
  /// The tokens `left` and `right`, side by side, become `merged`. Earlier merges go first.
  struct Merge {
    TokenId left;
    TokenId right;
    TokenId merged;
  };

  std::string where;  // the files, for messages
  Model model = Model::kBpe;
  std::vector<std::string> tokens;                      // as spelled in the file, by id; "" and kUnused: a hole
  std::unordered_map<std::string_view, TokenId> id_of;  // of the model's own tokens that texts are made of
  std::vector<PieceKind> kinds;                         // by id; empty: all normal
  std::vector<Merge> merges;                            // of kBpe
  std::vector<double> scores;                           // by id, of kScoredBpe and kUnigram
  bool sentencepiece_arithmetic = false;  // kUnigram: SentencePiece's single-precision sums and its rules for `kinds`
  bool ignore_merges = false;             // a word that is a token is not merged
  bool byte_fallback = false;             // characters that are no tokens become <0x00> … <0xFF>
  std::optional<TokenId> unknown;         // or else this
  bool fuse_unknown = false;              // one for several in a row
  std::vector<AddedToken> added;          // by id
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  std::vector<DecoderStep> decoder;
  std::unordered_map<TokenId, std::string> decoded;  // tokens that stand for another text than their own
  std::vector<TokenId> added_prefix;  // what goes before a text: a BOS, or several (GLM: [gMASK]<sop>), or nothing
  std::optional<TokenId> eos;

  TokenizerSpec() = default;
  TokenizerSpec(TokenizerSpec&&) = default;  // not copied: id_of refers to tokens
  TokenizerSpec& operator=(TokenizerSpec&&) = default;

  PieceKind kind(TokenId id) const { return kinds.empty() ? PieceKind::kNormal : kinds[id]; }
  /// Whether no token has the id, as with some of GPT-4o's: no text is made of it, and it is decoded to nothing.
  bool is_hole(TokenId id) const { return tokens[id].empty() && kind(id) == PieceKind::kUnused; }
};

/// Throws FormatError unless the ids of tokens are below their number, `kinds` and `scores` have one entry per token
/// (where the model uses them), and scores are finite.
void check(const TokenizerSpec& spec);

}  // namespace nibble::model

#include "model/tokenizer/pipeline.h"

#include <algorithm>

#include "core/error.h"
#include "model/tokenizer/fingerprint.h"
#include "model/tokenizer/normalize/normalizer.h"
#include "model/tokenizer/split/added_tokens.h"
#include "model/tokenizer/split/pre_tokenizer.h"
#include "model/tokenizer/text_decoder.h"
#include "model/tokenizer/words/bpe.h"
#include "model/tokenizer/words/safe_cuts.h"
#include "model/tokenizer/words/scored_bpe.h"
#include "model/tokenizer/words/unigram.h"
#include "model/tokenizer/workspace.h"

namespace nibble::model {
namespace {

TokenizerSpec checked(TokenizerSpec spec) {
  check(spec);
  return spec;
}

/// The added tokens that are looked for in the text as it is, or (normalised themselves) in the normalised text.
std::vector<AddedToken> searched_tokens(const TokenizerSpec& spec, const Normalizer& normalizer, bool normalized) {
  std::vector<AddedToken> tokens;
  for (const AddedToken& token : spec.added) {
    if (token.normalized != normalized) continue;
    tokens.push_back(token);
    if (!normalized || normalizer.is_identity()) continue;
    tokens.back().content = normalizer.apply(token.content);
    NIBBLE_REQUIRE(!tokens.back().content.empty(), FormatError,
                   "{}: nothing is left of added token {} when it is normalised, which is not supported", spec.where,
                   token.id);
  }
  // Of tokens that normalise to the same text the special ones count, then the first.
  std::stable_partition(tokens.begin(), tokens.end(), [](const AddedToken& token) { return token.special; });
  return tokens;
}

/// Bytes can be left unspelled for BPE by merges only, which looks them up one by one.
PreTokenizer::LastByteLevel last_byte_level(const TokenizerSpec& spec) {
  return spec.model == TokenizerSpec::Model::kBpe ? PreTokenizer::LastByteLevel::kLeftAsBytes
                                                  : PreTokenizer::LastByteLevel::kSpelled;
}

std::unique_ptr<const WordModel> make_model(const TokenizerSpec& spec, bool byte_level) {
  switch (spec.model) {
    case TokenizerSpec::Model::kBpe:
      return std::make_unique<Bpe>(spec, byte_level);
    case TokenizerSpec::Model::kScoredBpe:
      return std::make_unique<ScoredBpe>(spec);
    case TokenizerSpec::Model::kUnigram:
      return std::make_unique<Unigram>(spec);
  }
  throw InvalidArgument("make_tokenizer: no such model");
}

bool minds_where_a_text_starts(const PreTokenizerStep& step) {
  const auto* metaspace = std::get_if<MetaspaceStep>(&step);
  return metaspace != nullptr && metaspace->prepend == MetaspaceStep::Prepend::kFirst;
}

class Pipeline : public Tokenizer {
 public:
  explicit Pipeline(TokenizerSpec spec)
      : spec_(checked(std::move(spec))),
        fingerprint_(model::fingerprint(spec_)),
        normalizer_(spec_.normalizer, spec_.where + ": normalizer"),
        raw_tokens_(searched_tokens(spec_, normalizer_, false)),
        normalized_tokens_(searched_tokens(spec_, normalizer_, true)),
        pre_tokenizer_(spec_.pre_tokenizer, spec_.where + ": pre_tokenizer", last_byte_level(spec_)),
        minds_start_(std::any_of(spec_.pre_tokenizer.begin(), spec_.pre_tokenizer.end(), minds_where_a_text_starts)),
        safe_cuts_(spec_, pre_tokenizer_.byte_level()),
        model_(make_model(spec_, pre_tokenizer_.byte_level())),
        decoder_(spec_, normalizer_) {}

  std::vector<TokenId> encode(std::string_view text) const override {
    std::vector<TokenId> ids;
    const WorkspacePool::Lease workspace(workspaces_);
    raw_tokens_.split(text, [&](std::string_view piece, std::optional<TokenId> id) {
      bool starts_text = minds_start_ && piece.data() == text.data();
      if (id) {
        ids.push_back(*id);
      } else if (normalizer_.is_identity()) {
        encode_normalized(piece, starts_text, *workspace, ids);
      } else {
        const std::string normalized = normalizer_.apply(piece, starts_text);
        encode_normalized(normalized, starts_text, *workspace, ids);
      }
    });
    return ids;
  }

  std::string decode(std::span<const TokenId> ids) const override {
    for (std::size_t i = 0; i < ids.size(); ++i) require_id(ids[i], i);
    return decoder_.decode(ids);
  }

  std::size_t vocabulary_size() const override { return spec_.tokens.size(); }
  std::vector<TokenId> added_prefix() const override { return spec_.added_prefix; }
  std::optional<TokenId> eos() const override { return spec_.eos; }
  std::string fingerprint() const override { return fingerprint_; }

  std::size_t byte_length(TokenId id) const override {
    require_id(id, 0);
    return decoder_.byte_length(id);
  }

 private:
  /// Where encoding stands: what goes along from stage to stage.
  struct Progress {
    Workspace& workspace;
    WordCache& words;
    std::vector<TokenId>& ids;
  };

  void require_id(TokenId id, std::size_t position) const {
    NIBBLE_REQUIRE(id < spec_.tokens.size(), InvalidArgument,
                   "{}: id {} at position {} is not below the vocabulary size {}", spec_.where, id, position,
                   spec_.tokens.size());
  }

  void encode_normalized(std::string_view text, bool starts_text, Workspace& workspace,
                         std::vector<TokenId>& ids) const {
    Progress progress{workspace, workspace.cache(pre_tokenizer_.stages()), ids};
    normalized_tokens_.split(text, [&](std::string_view piece, std::optional<TokenId> id) {
      if (id) {
        ids.push_back(*id);
      } else {
        encode_from(0, piece, starts_text && piece.data() == text.data(), progress);
      }
    });
  }

  /// `text` is a word of the stage before `stage`.
  void encode_from(std::size_t stage, std::string_view text, bool starts_text, Progress& progress) const {
    if (stage == pre_tokenizer_.stages()) {
      encode_word(text, progress);
    } else if (stage > 0 && !minds_start_ && WordCache::may_hold(text)) {
      remembering(progress.workspace.cache(stage), text, progress.ids,
                  [&] { run_stage(stage, text, starts_text, progress); });
    } else {
      run_stage(stage, text, starts_text, progress);
    }
  }

  void run_stage(std::size_t stage, std::string_view text, bool starts_text, Progress& progress) const {
    struct {
      const Pipeline* self;
      std::size_t stage;
      std::string_view text;
      bool starts;
      Progress& progress;
    } frame{this, stage, text, starts_text, progress};
    // One pointer is all that fits into a std::function without an allocation.
    pre_tokenizer_.run_stage(stage, text, starts_text, [&frame](std::string_view word) {
      const bool starts = frame.starts && frame.self->pre_tokenizer_.keeps_start(frame.stage, frame.text, word);
      frame.self->encode_from(frame.stage + 1, word, starts, frame.progress);
      frame.starts = false;
    });
  }

  /// Appends the ids that `word` had before, or those that encode() appends now.
  template <class Encode>
  static void remembering(WordCache& cache, std::string_view word, std::vector<TokenId>& ids, Encode&& encode) {
    const std::span<const TokenId> known = cache.find(word);
    if (!known.empty()) {
      ids.insert(ids.end(), known.begin(), known.end());
      return;
    }
    const std::size_t before = ids.size();
    encode();
    cache.remember(word, std::span(ids).subspan(before));
  }

  void encode_word(std::string_view word, Progress& progress) const {
    if (safe_cuts_.makes_cuts()) {
      safe_cuts_.split(word, [this, &progress](std::string_view piece) { encode_piece(piece, progress); });
    } else {
      encode_piece(word, progress);
    }
  }

  void encode_piece(std::string_view word, Progress& progress) const {
    remembering(progress.words, word, progress.ids,
                [&] { model_->encode(word, progress.workspace.scratch, progress.ids); });
  }

  TokenizerSpec spec_;
  std::string fingerprint_;
  Normalizer normalizer_;
  AddedTokenFinder raw_tokens_;
  AddedTokenFinder normalized_tokens_;
  PreTokenizer pre_tokenizer_;
  bool minds_start_;  // a word's ids depend on whether it starts the text
  SafeCuts safe_cuts_;
  std::unique_ptr<const WordModel> model_;
  TextDecoder decoder_;
  mutable WorkspacePool workspaces_;
};

}  // namespace

std::shared_ptr<const Tokenizer> make_tokenizer(TokenizerSpec spec) {
  return std::make_shared<Pipeline>(std::move(spec));
}

}  // namespace nibble::model

#include "model/tokenizer/tokenizer.h"

#include <algorithm>
#include <mutex>

#include "core/error.h"
#include "model/tokenizer/bpe.h"
#include "model/tokenizer/gpt2_files.h"
#include "model/tokenizer/safe_cuts.h"
#include "model/tokenizer/spec.h"
#include "model/tokenizer/text_file.h"
#include "model/tokenizer/tokenizer_config.h"
#include "model/tokenizer/tokenizer_json.h"
#include "model/tokenizer/word_cache.h"

namespace nibble::model {
namespace {

/// What one encode() works with. Kept between calls, so that the cache stays warm.
struct Workspace {
  WordCache cache;
  Bpe::Scratch scratch;
};

/// As many workspaces as encode() calls ran at the same time.
class WorkspacePool {
 public:
  class Lease {
   public:
    explicit Lease(WorkspacePool& pool) : pool_(pool), workspace_(pool.take()) {}
    ~Lease() { pool_.give_back(std::move(workspace_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Workspace& operator*() const { return *workspace_; }

   private:
    WorkspacePool& pool_;
    std::unique_ptr<Workspace> workspace_;
  };

 private:
  std::unique_ptr<Workspace> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Workspace>();
    auto workspace = std::move(free_.back());
    free_.pop_back();
    return workspace;
  }
  void give_back(std::unique_ptr<Workspace> workspace) {
    workspace->scratch.forget_large();
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(workspace));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> free_;
};

/// The added tokens that are looked for in the text as it is, or (normalised themselves) in the normalised text.
std::vector<AddedToken> searched_tokens(const TokenizerSpec& spec, const Normalizer& normalizer, bool normalized) {
  std::vector<AddedToken> tokens;
  for (const AddedToken& token : spec.added) {
    // Without a normalizer the two searches would be one search of longest matches, cut in two.
    const bool is_normalized = token.normalized && !normalizer.is_identity();
    if (is_normalized != normalized) continue;
    tokens.push_back(token);
    if (normalized) tokens.back().content = normalizer.apply(token.content);
  }
  return tokens;
}

class BpeTokenizer : public Tokenizer {
 public:
  explicit BpeTokenizer(TokenizerSpec spec)
      : spec_(std::move(spec)),
        fingerprint_(model::fingerprint(spec_)),
        normalizer_(spec_.normalizer),
        raw_tokens_(searched_tokens(spec_, normalizer_, false)),
        normalized_tokens_(searched_tokens(spec_, normalizer_, true)),
        pre_tokenizer_(spec_.pre_tokenizer, spec_.where + ": pre_tokenizer"),
        safe_cuts_(spec_, pre_tokenizer_.byte_level()),
        bpe_(spec_, pre_tokenizer_.byte_level()),
        decoder_(spec_.decoder, spec_.tokens, spec_.added, spec_.where) {}

  std::vector<TokenId> encode(std::string_view text) const override {
    std::vector<TokenId> ids;
    const WorkspacePool::Lease workspace(workspaces_);
    raw_tokens_.split(text, [&](std::string_view piece, std::optional<TokenId> id) {
      if (id) {
        ids.push_back(*id);
      } else if (const bool starts_text = piece.data() == text.data(); normalizer_.is_identity()) {
        encode_words(piece, starts_text, *workspace, ids);
      } else {
        encode_normalized(normalizer_.apply(piece), starts_text, *workspace, ids);
      }
    });
    return ids;
  }

  std::string decode(std::span<const TokenId> ids) const override {
    for (std::size_t i = 0; i < ids.size(); ++i) require_id(ids[i], i);
    return decoder_.decode(ids);
  }

  std::size_t vocabulary_size() const override { return spec_.tokens.size(); }
  std::optional<TokenId> added_bos() const override { return spec_.added_bos; }
  std::optional<TokenId> eos() const override { return spec_.eos; }
  std::string fingerprint() const override { return fingerprint_; }

  std::size_t byte_length(TokenId id) const override {
    require_id(id, 0);
    return decoder_.byte_length(id);
  }

 private:
  void require_id(TokenId id, std::size_t position) const {
    NIBBLE_REQUIRE(id < spec_.tokens.size(), InvalidArgument,
                   "{}: id {} at position {} is not below the vocabulary size {}", spec_.where, id, position,
                   spec_.tokens.size());
  }

  void encode_normalized(std::string_view text, bool starts_text, Workspace& workspace,
                         std::vector<TokenId>& ids) const {
    normalized_tokens_.split(text, [&](std::string_view piece, std::optional<TokenId> id) {
      if (id) {
        ids.push_back(*id);
      } else {
        encode_words(piece, starts_text && piece.data() == text.data(), workspace, ids);
      }
    });
  }

  void encode_words(std::string_view text, bool starts_text, Workspace& workspace, std::vector<TokenId>& ids) const {
    const auto encode_word = [&](std::string_view word) {
      const std::span<const TokenId> known = workspace.cache.find(word);
      if (!known.empty()) {
        ids.insert(ids.end(), known.begin(), known.end());
        return;
      }
      const std::size_t before = ids.size();
      bpe_.encode(word, workspace.scratch, ids);
      workspace.cache.remember(word, std::span(ids).subspan(before));
    };
    if (safe_cuts_.cuts_before_spaces()) {
      pre_tokenizer_.split(text, starts_text, [&](std::string_view word) { safe_cuts_.split(word, encode_word); });
    } else {
      pre_tokenizer_.split(text, starts_text, encode_word);
    }
  }

  TokenizerSpec spec_;
  std::string fingerprint_;
  Normalizer normalizer_;
  AddedTokenFinder raw_tokens_;
  AddedTokenFinder normalized_tokens_;
  PreTokenizer pre_tokenizer_;
  SafeCuts safe_cuts_;
  Bpe bpe_;
  Decoder decoder_;
  mutable WorkspacePool workspaces_;
};

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::open(const std::filesystem::path& directory) {
  const TokenizerConfig config = read_tokenizer_config(directory / "tokenizer_config.json");
  const auto json = directory / "tokenizer.json";
  if (file_exists(json)) return std::make_shared<BpeTokenizer>(read_tokenizer_json(json, config));
  const auto vocabulary = directory / "vocab.json";
  const auto merges = directory / "merges.txt";
  NIBBLE_REQUIRE(file_exists(vocabulary) && file_exists(merges), FormatError,
                 "'{}' has no tokenizer: neither tokenizer.json nor vocab.json with merges.txt", directory.string());
  return std::make_shared<BpeTokenizer>(read_gpt2_files(vocabulary, merges, config));
}

}  // namespace nibble::model

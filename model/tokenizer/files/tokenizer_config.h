#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/text/json_fields.h"
#include "model/tokenizer/spec.h"
#include "model/tokenizer/split/added_tokens.h"

namespace nibble::model {

/// What tokenizer_config.json adds to the vocabulary files.
struct TokenizerConfig {
  std::optional<bool> add_bos;
  std::optional<std::string> bos;
  std::optional<std::string> eos;
  std::optional<bool> add_prefix_space;
  bool legacy = true;  ///< of LlamaTokenizer: a space goes before every text between added tokens, not before the first
  std::string tokenizer_class;  ///< whose rules vocab.json and merges.txt follow; empty where it is not said
  std::vector<AddedToken> added;
  /// The tokens that have a name (bos_token, pad_token, image_token, …), and those of the lists of more; without ids.
  /// Some stand here more than once.
  std::vector<AddedToken> special;
};

/// All empty if the file does not exist. Throws FormatError.
TokenizerConfig read_tokenizer_config(const std::filesystem::path& path);

/// Adds the names of special_tokens_map.json, which counts beside a tokenizer.json only where tokenizer_config.json has
/// no list of added tokens. Throws FormatError.
void read_map_beside(TokenizerConfig& config, const std::filesystem::path& directory);

/// Adds what vocab.json and tokenizer.model have beside them and tokenizer.json has in it: the names of
/// special_tokens_map.json and, where tokenizer_config.json has no list of them, the tokens of added_tokens.json.
/// Named tokens are found in texts as they are then, whatever their settings. Throws FormatError.
void read_files_beside(TokenizerConfig& config, const std::filesystem::path& directory);

/// {"content": …, "lstrip": …, "normalized": …, "rstrip": …, "single_word": …, "special": …}
AddedToken read_added_token(const JsonFields& fields, std::uint64_t id);

/// Adds the config's added tokens that `added` lacks; of those that both have the config's settings count. Throws
/// FormatError where they contradict each other.
void join_added_tokens(std::vector<AddedToken>& added, const TokenizerConfig& config, const std::string& where);

/// Adds, as special tokens, those of the config's tokens with a name that `added` lacks and for which id_of(content)
/// finds an id: vocabularies have their control tokens among the others, often without a list of added tokens.
void join_named_tokens(std::vector<AddedToken>& added, const std::vector<AddedToken>& special,
                       const std::function<std::optional<TokenId>(const std::string& content)>& id_of);

/// Sets eos and added_prefix where the config has a word on them. The vocabulary must be complete. Throws FormatError
/// for tokens that it lacks.
void apply_tokenizer_config(TokenizerSpec& spec, const TokenizerConfig& config);

}  // namespace nibble::model

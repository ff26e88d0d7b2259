#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <utility>

#include "core/text/json.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/words/byte_alphabet.h"
#include "model/tokenizer/words/byte_tokens.h"
#include "tests/support/files.h"

namespace nibble::model::test {

using nlohmann::json;
using Merges = std::initializer_list<std::pair<std::string, std::string>>;

inline void add_merges(json& model, Merges merges) {
  for (const auto& [left, right] : merges) {
    model["vocab"].emplace(left + right, model["vocab"].size());
    model["merges"].push_back({left, right});
  }
}

/// tokenizer.json of a byte-level BPE: ids 0-255 are the bytes, then one for each merge (in the byte alphabet).
inline json byte_level_json(Merges merges = {}) {
  json file{{"version", "1.0"},
            {"added_tokens", json::array()},
            {"normalizer", nullptr},
            {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
            {"decoder", {{"type", "ByteLevel"}}},
            {"model", {{"type", "BPE"}, {"vocab", json::object()}, {"merges", json::array()}}}};
  for (int byte = 0; byte < 256; ++byte) {
    file["model"]["vocab"][spell_bytes(std::string(1, static_cast<char>(byte)))] = byte;
  }
  add_merges(file["model"], merges);
  return file;
}

/// tokenizer.json of Llama 2's kind: <unk> 0, <s> 1, </s> 2, bytes 3-258, '▁' 259, 'a' 260, 'b' 261, then the merges.
inline json llama2_json(Merges merges = {}) {
  json file = byte_level_json();
  file["pre_tokenizer"] = nullptr;
  json& model = file["model"];
  model["vocab"] = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (int byte = 0; byte < 256; ++byte) model["vocab"][byte_token(static_cast<std::uint8_t>(byte))] = 3 + byte;
  for (const char* character : {"▁", "a", "b"}) model["vocab"].emplace(character, model["vocab"].size());
  model.update({{"unk_token", "<unk>"}, {"fuse_unk", true}, {"byte_fallback", true}});
  add_merges(model, merges);
  for (const char* token : {"<unk>", "<s>", "</s>"}) {
    file["added_tokens"].push_back(
        {{"id", model["vocab"][token]}, {"content", token}, {"special", true}, {"normalized", false}});
  }
  const json spell_spaces{{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  const json unspell_spaces{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}};
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}, {"prepend", "▁"}}, spell_spaces}}};
  file["decoder"] = {{"type", "Sequence"},
                     {"decoders",
                      {unspell_spaces,
                       {{"type", "ByteFallback"}},
                       {{"type", "Fuse"}},
                       {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  return file;
}

inline std::shared_ptr<const Tokenizer> open_text(std::string_view tokenizer_json,
                                                  std::string_view tokenizer_config = "{}") {
  const nibble::test::TempDir directory;
  nibble::test::write_file(directory / "tokenizer.json", tokenizer_json);
  nibble::test::write_file(directory / "tokenizer_config.json", tokenizer_config);
  return Tokenizer::open(directory.path());
}

inline std::shared_ptr<const Tokenizer> open_json(const json& file, const json& config = json::object()) {
  return open_text(file.dump(), config.dump());
}

}  // namespace nibble::model::test

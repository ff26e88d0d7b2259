#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "core/text/json.h"
#include "export/export_checkpoint.h"
#include "model/synthesize/synthesize_model.h"
#include "model/tokenizer/words/byte_alphabet.h"
#include "tests/support/files.h"

namespace nibble::test {

/// tokenizer.json of byte-level BPE with GPT-2's pattern: 256 bytes, "th", "the", and "<|end|>" as the last of
/// `vocabulary` tokens, with fillers between. Requires vocabulary > 258.
inline nlohmann::json byte_level_tokenizer(std::size_t vocabulary) {
  nlohmann::json vocab = nlohmann::json::object();
  for (unsigned byte = 0; byte < 256; ++byte) vocab[model::spell_bytes(std::string(1, static_cast<char>(byte)))] = byte;
  for (const std::string token : {"th", "the"}) vocab[token] = vocab.size();
  while (vocab.size() + 1 < vocabulary) vocab[fmt::format("filler{}", vocab.size())] = vocab.size();
  const nlohmann::json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return {{"version", "1.0"},
          {"added_tokens",
           {{{"id", vocabulary - 1},
             {"content", "<|end|>"},
             {"single_word", false},
             {"lstrip", false},
             {"rstrip", false},
             {"normalized", false},
             {"special", true}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"t h", "th e"}}}}};
}

inline void write_tokenizer(const std::filesystem::path& directory, std::size_t vocabulary) {
  write_file(directory / "tokenizer.json", byte_level_tokenizer(vocabulary).dump());
}

/// A Llama of 2 blocks, width 64, 4 heads of 16, 2 for keys and values, MLP 96, vocabulary 300 with a tokenizer; keys
/// of config.json as `changes` says.
inline void write_small_llama(const std::filesystem::path& directory,
                              const nlohmann::json& changes = nlohmann::json::object()) {
  nlohmann::json config = {{"model_type", "llama"},    {"vocab_size", 300},
                           {"hidden_size", 64},        {"intermediate_size", 96},
                           {"num_hidden_layers", 2},   {"num_attention_heads", 4},
                           {"num_key_value_heads", 2}, {"max_position_embeddings", 128},
                           {"rms_norm_eps", 1e-5},     {"tie_word_embeddings", false}};
  config.merge_patch(changes);
  model::synthesize_model(config.dump(), directory, {.seed = 7, .overwrite = true});
  write_tokenizer(directory, 300);
}

inline exporting::ExportResult export_gguf(const std::filesystem::path& model, const std::filesystem::path& output,
                                           exporting::Rest rest = exporting::Rest::kRefuse) {
  return exporting::export_checkpoint({.model = model,
                                       .output = output,
                                       .exporter = exporting::find_exporter("gguf"),
                                       .options = {.rest = rest},
                                       .overwrite = true,
                                       .progress = {}});
}

}  // namespace nibble::test

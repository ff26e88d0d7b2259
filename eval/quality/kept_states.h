#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "eval/quality/perplexity.h"
#include "eval/quality/window_batch.h"

namespace nibble::eval {

// What a model's last block hands to its head for each scored token of a text, kept in a file: enough to make the
// logits again, to the bit, at the cost of the head alone. So a reference that many models are compared with runs once.
// The file is states (targets, hidden) as float, little-endian: 4 hidden bytes per scored token, where logits would
// take 4 vocabulary.

/// Bytes of that file. Throws InvalidArgument as evaluation_windows() does.
std::uint64_t kept_states_bytes(const model::Architecture& architecture, std::span<const TokenId> tokens,
                                const PerplexityOptions& options);

/// Runs the blocks of `model` over `tokens` as `options` say and writes the file. Memory: the states of one batch.
/// Throws InvalidArgument as perplexity() does, FormatError (the file).
void keep_states(const model::Model& model, std::span<const TokenId> tokens, const PerplexityOptions& options,
                 const std::filesystem::path& file);

/// The logits of the text whose states `file` holds: `model` is the one that they came from, of which only the head
/// runs; tokens and options are those that they were kept for. `model` must outlive the result. Throws FormatError when
/// the file is not of the size that they ask for, here or (cut short) later.
LogitMaker logits_of_kept_states(const model::Model& model, const std::filesystem::path& file,
                                 std::span<const TokenId> tokens, const PerplexityOptions& options);

}  // namespace nibble::eval

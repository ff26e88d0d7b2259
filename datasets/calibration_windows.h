#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/progress.h"
#include "datasets/document_reader.h"
#include "model/tokenizer/tokenizer.h"

namespace nibble::datasets {

/// Token sequences that a model is calibrated on, and where they come from.
struct CalibrationWindows {
  std::vector<TokenId> tokens;  ///< (samples, length), one window after the other
  std::size_t samples = 0, length = 0;
  std::string fingerprint;  ///< hash of the text: of all documents in order, or of the fixed windows' ids

  DocumentCounts documents;           ///< sampled: what the files held
  std::uint64_t short_documents = 0;  ///< sampled: documents found to have fewer than `length` tokens
  std::uint64_t unused_tokens = 0;    ///< fixed: tokens after the last whole window, where all windows were asked for

  std::span<const TokenId> window(std::size_t i) const { return std::span(tokens).subspan(i * length, length); }
};

struct SamplingOptions {
  std::size_t samples = 128;
  std::size_t length = 512;
  std::uint64_t seed = 0;
  std::string field{kDefaultField};  ///< of JSON lines
  ProgressSink progress = {};        ///< in bytes of the files
};

/// Random windows of text, as SqueezeLLM and GPTQ draw them from C4: `samples` times a random document (with
/// replacement) and of it a random slice of `length` tokens; a document with fewer tokens is drawn again, counted, and
/// set aside.
///
/// The files (DocumentReader) are never held: one pass finds the documents and hashes them, further ones tokenize just
/// those that were drawn. Memory: the windows, 8 bytes per document, one document.
/// Result   the same for the same texts, tokenizer and options, however the files are compressed.
/// Throws   InvalidArgument (samples or length of 0), FormatError (what DocumentReader throws; no documents; none with
///          `length` tokens; files that change between the passes).
CalibrationWindows sample_calibration_windows(const std::vector<std::filesystem::path>& files,
                                              const model::Tokenizer& tokenizer, const SamplingOptions& options);

/// Consecutive windows of `length` tokens from the start of a token file (datasets/token_file.h): the first `samples`,
/// or all whole ones where that is 0. Throws FormatError when the file holds fewer, InvalidArgument for a length of 0.
CalibrationWindows fixed_calibration_windows(const std::filesystem::path& file, std::size_t vocabulary,
                                             std::size_t length, std::size_t samples);

/// What a user should know about the text that was skipped: one sentence each, none if all is well.
std::vector<std::string> warnings(const CalibrationWindows& windows);

}  // namespace nibble::datasets

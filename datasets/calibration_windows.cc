#include "datasets/calibration_windows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/files/hash.h"
#include "core/random.h"
#include "datasets/token_file.h"

namespace nibble::datasets {
namespace {

// Reports how far a reader is, about a thousand times per pass.
class PassProgress {
 public:
  PassProgress(const ProgressSink& sink, std::string_view stage, const DocumentReader& reader)
      : sink_(sink), stage_(stage), reader_(reader) {}
  void update() {
    if (!sink_ || reader_.bytes_read() - reported_ < reader_.bytes_total() / 1000 + 1) return;
    reported_ = reader_.bytes_read();
    sink_({stage_, static_cast<double>(std::min(reported_, reader_.bytes_total())),
           static_cast<double>(reader_.bytes_total()), "bytes"});
  }

 private:
  const ProgressSink& sink_;
  std::string_view stage_;
  const DocumentReader& reader_;
  std::uint64_t reported_ = 0;
};

struct Index {
  std::vector<std::uint64_t> candidates;  // records of the documents that may be long enough, ascending
  DocumentCounts counts;
  std::uint64_t short_documents = 0;
  std::string fingerprint;
};

std::string skipped(const DocumentCounts& counts) {
  return fmt::format(
      "{} documents, {} blank, {} with invalid UTF-8, {} without the field, {} with a field that is no text",
      counts.documents, counts.empty, counts.invalid_utf8, counts.missing_field, counts.not_text);
}

Index index_documents(const std::vector<std::filesystem::path>& files, const SamplingOptions& options) {
  Index index;
  Hasher hasher;
  DocumentReader reader(files, options.field);
  PassProgress progress(options.progress, "reading text", reader);
  while (reader.next()) {
    if (const auto text = reader.document()) {
      hasher.update(std::string_view(*text));
      // Every token stands for a byte or more of the text, but for one that a tokenizer may put in front.
      if (text->size() + 1 >= options.length) {
        index.candidates.push_back(reader.record());
      } else {
        ++index.short_documents;
      }
    }
    progress.update();
  }
  index.counts = reader.counts();
  index.fingerprint = hasher.hex();
  const std::string hint = reader.keys_instead().empty() ? ""
                                                         : fmt::format("; is '{}' the right field? There are: {}",
                                                                       options.field, reader.keys_instead());
  NIBBLE_REQUIRE(index.counts.documents > 0, FormatError, "calibration text: no usable document in {} file(s): {}{}",
                 files.size(), skipped(index.counts), hint);
  return index;
}

struct Draw {
  std::size_t candidate = 0;
  std::uint64_t record = 0;
  std::uint64_t slice_seed = 0;
  std::vector<TokenId> window;  // stays empty if the document is too short
};

// The next `count` draws of documents that are not known to be too short. Which draws are used does not depend on how
// many are made at a time, so a smaller number of windows is always the first of a larger one.
std::vector<Draw> draw(std::size_t count, const std::vector<std::uint64_t>& candidates,
                       const std::vector<bool>& too_short, Random& random) {
  std::vector<Draw> draws;
  while (draws.size() < count) {
    const std::size_t candidate = random.below(candidates.size());
    const std::uint64_t slice_seed = random.next();
    if (!too_short[candidate]) draws.push_back({candidate, candidates[candidate], slice_seed, {}});
  }
  return draws;
}

// Reads the files once more, tokenizes the documents that were drawn and cuts the windows.
void cut_windows(const std::vector<std::filesystem::path>& files, const model::Tokenizer& tokenizer,
                 const SamplingOptions& options, std::vector<Draw>& draws) {
  std::vector<Draw*> by_record;
  for (Draw& one : draws) by_record.push_back(&one);
  std::stable_sort(by_record.begin(), by_record.end(), [](auto* a, auto* b) { return a->record < b->record; });

  DocumentReader reader(files, options.field);
  PassProgress progress(options.progress, "drawing windows", reader);
  for (auto next = by_record.begin(); next != by_record.end();) {
    bool found = reader.next();
    while (found && reader.record() < (*next)->record) {
      progress.update();
      found = reader.next();
    }
    const auto text = found ? reader.document() : std::nullopt;
    NIBBLE_REQUIRE(text.has_value(), FormatError, "calibration text: the files changed while they were read");
    const std::vector<TokenId> tokens = tokenizer.encode(*text);
    for (const std::uint64_t record = (*next)->record; next != by_record.end() && (*next)->record == record; ++next) {
      if (tokens.size() < options.length) continue;
      const std::uint64_t start = Random((*next)->slice_seed).below(tokens.size() - options.length + 1);
      const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(start);
      (*next)->window.assign(first, first + static_cast<std::ptrdiff_t>(options.length));
    }
  }
}

// How many to draw so that `missing` of them are long enough, by the share that was so far. Every round reads all of
// the text, so rounds grow with what was drawn in vain; but all their windows are held, and where few of the documents
// are `left` it takes long to find them.
std::size_t next_round(std::size_t missing, std::size_t drawn, std::size_t accepted, std::size_t left) {
  if (drawn == 0) return missing;
  const double share = static_cast<double>(std::max<std::size_t>(accepted, 1)) / static_cast<double>(drawn);
  const double wanted = std::ceil(static_cast<double>(missing) / share * 1.25);
  const std::size_t most = 16 * missing + 64 + std::min(drawn, left);
  return static_cast<std::size_t>(std::min(wanted, static_cast<double>(most)));
}

}  // namespace

CalibrationWindows sample_calibration_windows(const std::vector<std::filesystem::path>& files,
                                              const model::Tokenizer& tokenizer, const SamplingOptions& options) {
  NIBBLE_REQUIRE(options.samples > 0 && options.length > 0, InvalidArgument,
                 "calibration windows: expected at least one sample of at least one token, got {} of {}",
                 options.samples, options.length);
  Index index = index_documents(files, options);
  CalibrationWindows result;
  result.length = options.length;
  result.documents = index.counts;
  result.short_documents = index.short_documents;
  result.fingerprint = index.fingerprint;

  Random random(options.seed);
  std::size_t drawn = 0, accepted = 0, left = index.candidates.size();
  std::vector<bool> too_short(left);
  while (result.samples < options.samples) {
    NIBBLE_REQUIRE(left > 0, FormatError,
                   "calibration text: none of {} documents has {} tokens: use more text or a smaller length",
                   index.counts.documents, options.length);
    const std::size_t count = next_round(options.samples - result.samples, drawn, accepted, left);
    auto draws = draw(count, index.candidates, too_short, random);
    cut_windows(files, tokenizer, options, draws);
    drawn += draws.size();
    for (const Draw& one : draws) {
      if (one.window.empty()) {
        if (!too_short[one.candidate]) --left;
        too_short[one.candidate] = true;
        continue;
      }
      ++accepted;
      if (result.samples == options.samples) continue;
      result.tokens.insert(result.tokens.end(), one.window.begin(), one.window.end());
      ++result.samples;
    }
  }
  result.short_documents += index.candidates.size() - left;
  return result;
}

CalibrationWindows fixed_calibration_windows(const std::filesystem::path& file, std::size_t vocabulary,
                                             std::size_t length, std::size_t samples) {
  NIBBLE_REQUIRE(length > 0, InvalidArgument, "calibration windows: expected a length of at least one token, got 0");
  const auto needed = static_cast<std::size_t>(checked_multiply(samples, length, "calibration windows"));
  CalibrationWindows result;
  result.length = length;
  result.tokens = samples == 0 ? read_token_file(file, vocabulary) : read_token_file(file, vocabulary, needed);
  result.samples = result.tokens.size() / length;
  NIBBLE_REQUIRE(result.samples >= std::max<std::size_t>(samples, 1), FormatError,
                 "'{}': expected {} windows of {} tokens, the file has {} tokens", file.string(),
                 std::max<std::size_t>(samples, 1), length, result.tokens.size());
  result.unused_tokens = result.tokens.size() - result.samples * length;
  result.tokens.resize(result.samples * length);
  static_assert(std::endian::native == std::endian::little, "the hash is of little-endian ids");
  result.fingerprint = hash_hex(std::as_bytes(std::span(result.tokens)));
  return result;
}

std::vector<std::string> warnings(const CalibrationWindows& windows) {
  const DocumentCounts& counts = windows.documents;
  std::vector<std::string> sentences;
  const auto add = [&](std::uint64_t count, std::string_view what) {
    if (count > 0) sentences.push_back(fmt::format("{} {}", count, what));
  };
  add(counts.invalid_utf8, "lines were skipped: invalid UTF-8");
  add(counts.missing_field, "lines were skipped: the text field is missing");
  add(counts.not_text, "lines were skipped: the text field is not a string");
  add(counts.empty, "blank lines or documents were skipped");
  if (windows.short_documents > 0)
    sentences.push_back(fmt::format("{} documents found shorter than {} tokens were not used", windows.short_documents,
                                    windows.length));
  if (windows.unused_tokens > 0)
    sentences.push_back(fmt::format("{} tokens after the last whole window of {} were not used", windows.unused_tokens,
                                    windows.length));
  return sentences;
}

}  // namespace nibble::datasets

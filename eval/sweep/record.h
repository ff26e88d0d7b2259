#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quant/store/tensor_figures.h"

namespace nibble::eval {

/// Names and texts in order: what a part of a record is about.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// A measured number, or none where it is not finite: the error of a single window, say.
inline std::optional<double> if_finite(double value) {
  return std::isfinite(value) ? std::optional<double>(value) : std::nullopt;
}

/// The way back: NaN, which estimate_text() leaves out, for none.
inline double or_nan(std::optional<double> value) { return value.value_or(std::numeric_limits<double>::quiet_NaN()); }

/// How often the values of a weight fall into bins of equal width over [low, high].
struct Histogram {
  double low = 0.0, high = 0.0;
  std::vector<std::uint64_t> counts;
};

/// What became of one weight, and what a report draws of it.
struct TensorRecord : quant::TensorFigures {
  /// Of a weight with one scalar palette for all of it, ascending; else empty.
  std::vector<double> palette;
  /// Of the weight's values; where rows have scales, of the values divided by them, as the palette is.
  std::optional<Histogram> histogram;
};

/// How far a model's predictions are from those of the float model, over the scored tokens.
struct DivergenceMeasures {
  double nats_per_token = 0.0;                              ///< mean Kullback-Leibler divergence, float model first
  std::optional<double> stderr_nats;                        ///< of that mean
  double median = 0.0, percentile_99 = 0.0, largest = 0.0;  ///< of the tokens' divergences, nats
  double top1_agreement = 0.0;      ///< share of the tokens with the same most probable next token
  std::vector<double> window_nats;  ///< mean of each window: for paired differences between cells of one evaluation
};

/// Of several runs.
struct TimingSpread {
  double median = 0.0, min = 0.0, max = 0.0;
};

/// How fast a model decodes with one size of the cache: greedily, behind a prompt of random tokens.
struct SpeedRecord {
  std::uint64_t context = 0, prompt = 0, generate = 0;  ///< positions of the cache; tokens; tokens after the first
  std::uint64_t cache_bytes = 0;
  TimingSpread first_token_seconds;
  TimingSpread tokens_per_second;  ///< of the `generate` tokens, one by one
};

/// How training went, of a recipe with tuning: as quant::TuningResult.
struct TuningRecord {
  std::vector<double> held_out_loss, trained_loss;
  std::uint64_t best_epoch = 0;
};

/// What was measured of a cell. Of an evaluation of speed: sizes and tensors; perplexity and loss are NaN.
struct CellMeasures {
  double perplexity = 0.0;
  std::optional<double> perplexity_stderr;  ///< empty for a single window
  double nll_nats_per_token = 0.0;
  std::optional<double> bits_per_byte;  ///< empty without a tokenizer
  std::uint64_t tokens_scored = 0;
  std::vector<double> window_nll;  ///< mean NLL of each window, nats: for paired tests between cells of one evaluation
  /// Scored in each window, as many as window_nll. Empty where all have the same number, and in records of earlier
  /// versions, which do not say.
  std::vector<std::uint64_t> window_tokens = {};
  std::optional<DivergenceMeasures> divergence;  ///< where the evaluation asks for it
  double bits_per_weight = 0.0;                  ///< of the blocks' linear layers, all-in
  double model_bits_per_weight = 0.0;
  std::uint64_t model_bytes = 0;
  std::optional<TuningRecord> tuning = {};
  std::vector<TensorRecord> tensors;  ///< in checkpoint order; empty for a float model
};

/// Why a cell failed.
struct CellError {
  std::string kind;  ///< "InvalidArgument", "FormatError", "NumericalError", "OutOfMemory", "Unexpected"
  std::string message;
};

/// One cell of a sweep: a JSON file (docs/formats.md, "Sweep records"). Equal cells of two sweeps by the same build on
/// the same machine give the same bytes, but for `timings` and `speeds`, and for `command` where they lie elsewhere.
struct SweepRecord {
  std::string id;  ///< 32 hex digits: hash of `configuration`; the file is called ID.json
  /// Names for people and tables: "model", "recipe", "evaluation". Not part of the id.
  Facts labels;
  /// Everything that decides the result, each part as a JSON value: "model", "recipe", "calibration", "evaluation".
  /// `recipe` is canonical (null for the float model), `calibration` null where none is used.
  Facts configuration;
  std::optional<CellError> error;                       ///< of a failed cell
  std::optional<CellMeasures> measures;                 ///< of one that did not fail
  std::vector<std::string> warnings = {};               ///< of its model (the first quant::warnings()) and text
  Facts environment;                                    ///< commit, compiler, processor, kernels, threads
  Facts sources;                                        ///< paths, as the sweep gave them
  std::string command;                                  ///< repeat_command() of its file, as `sources` are given
  std::vector<std::pair<std::string, double>> timings;  ///< seconds, tokens per second, peak memory: differ run by run
  std::vector<SpeedRecord> speeds;                      ///< of an evaluation of speed, one for each context
};

/// What a record calls itself, under "format".
constexpr std::string_view kRecordFormat = "nibble sweep record";

/// The record as one JSON object, keys in the order of docs/formats.md. Measures that are not finite are null.
nlohmann::ordered_json record_json(const SweepRecord& record);
/// The text of the file: record_json() in lines, lists of numbers on one line each.
std::string record_text(const SweepRecord& record);
/// The same, where that is more than `most` bytes without what is only drawn: palettes and histograms, of thousands of
/// experts, say. Throws FormatError where that is too much too.
std::string record_text_within(const SweepRecord& record, std::uint64_t most);
/// The same without `timings`, `speeds` and `command`: what must not differ between two runs.
std::string record_text_without_timings(const SweepRecord& record);

/// Reads one record, from anybody. `what` names the source in messages. Throws FormatError: not a record, another
/// version, keys missing or of another type; an id that is not 32 hex digits.
SweepRecord parse_record(std::string_view text, std::string_view what);
/// Throws FormatError as above, or when the file cannot be read or is larger than kMaxRecordBytes.
SweepRecord read_record(const std::filesystem::path& file);

/// What a shell is told to do the cell of the record in `file` again. It works where the sweep's own paths do.
std::string repeat_command(const std::filesystem::path& file);

/// What windows weigh in differences between two records of one evaluation, for weighted_mean(): their scored tokens,
/// of the record that says them; none where all weigh the same. A divergence is a mean over tokens; a loss is averaged
/// as the evaluation says (docs/protocols.md).
std::span<const std::uint64_t> divergence_weights(const SweepRecord& a, const SweepRecord& b);
std::span<const std::uint64_t> loss_weights(const SweepRecord& a, const SweepRecord& b);

/// All records of a directory (or the one of a file), by id: files named ID.json; others are passed over. Throws
/// FormatError for a directory that cannot be read, or a file called ID.json that is no record.
std::vector<SweepRecord> read_records(const std::filesystem::path& path);

/// Whether a file is called like a record: 32 hex digits and ".json".
bool is_record_name(const std::filesystem::path& file);

/// The value of `name` in `facts`, or an empty text.
std::string_view fact(const Facts& facts, std::string_view name);
/// The JSON that a fact holds as text; null where it holds none, or what strict JSON is not (core/text/strict_json.h):
/// texts of `labels`, `environment` and `sources` come as a stranger's file has them.
nlohmann::ordered_json fact_json(const Facts& facts, std::string_view name);
/// Where it is there already.
void set_fact(Facts& facts, std::string_view name, std::string_view value);

/// The warnings of a record, each with the names of its model and recipe in front. What making the model gave, cells of
/// one model and recipe, one for each evaluation, have alike.
std::vector<std::string> warning_sentences(const SweepRecord& record);

/// Whether the windows of a record's calibration are consecutive ones of a file of token ids, with a BOS or without.
bool is_cut_from_tokens(const nlohmann::json& calibration);

/// What weighs the tokens of a cell's guided and output Hessians: "plain" where the record does not say; nothing where
/// it needs neither.
std::optional<std::string> recorded_guide(const SweepRecord& record);
/// Which kind its Fisher sensitivities are; nothing where it has none.
std::optional<std::string> recorded_flavour(const SweepRecord& record);

/// What an evaluation scores, as JSON: its configuration without `divergence`, which says what else was looked at there
/// and changes no loss.
std::string scored_text(const SweepRecord& record);
/// Whether the losses of both are of the same tokens under the same protocol, window by window.
bool same_evaluation(const SweepRecord& a, const SweepRecord& b);

/// "model · recipe · evaluation", for people.
std::string cell_name(const SweepRecord& record);

/// Which draw of its text a calibration looked at.
constexpr std::string_view kCalibrationSeed = "calibration.seed";
/// How many windows it looked at.
constexpr std::string_view kCalibrationSamples = "calibration.samples";
/// Settings of a calibration, and their keys in its configuration. They are called so because a recipe may have a
/// `seed` too.
constexpr std::array<std::pair<std::string_view, const char*>, 2> kCalibrationSettings{
    {{kCalibrationSamples, "windows"}, {kCalibrationSeed, "seeds"}}};

/// What tables can be pivoted by: labels; then the recipe's keys ("bits": "3", from its `defaults`), the
/// evaluation's ("protocol": "half", "context": "512"), and kCalibrationSettings. A name appears once.
Facts settings_of(const SweepRecord& record);

/// Whether `text` is what records, and what a cache keeps, are named by: 32 hex digits.
bool is_id(std::string_view text);

/// The largest record read, in bytes.
constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{64} << 20;

}  // namespace nibble::eval

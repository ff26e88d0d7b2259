#include "eval/sweep/record.h"

#include <algorithm>
#include <limits>

#include "calib/stats/run_settings.h"
#include "core/error.h"
#include "core/files/output_file.h"
#include "core/text/excerpt.h"
#include "core/text/json.h"
#include "core/text/json_fields.h"
#include "core/text/strict_json.h"

namespace nibble::eval {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr std::size_t kIdDigits = 32;

Json texts_json(const Facts& facts) {
  Json object = Json::object();
  for (const auto& [name, text] : facts) object[name] = text;
  return object;
}

Json values_json(const Facts& facts) {
  Json object = Json::object();
  for (const auto& [name, text] : facts) object[name] = Json::parse(text);
  return object;
}

Json tensor_json(const TensorRecord& tensor) {
  Json json = json_of(tensor);
  if (!tensor.palette.empty()) json["palette"] = tensor.palette;
  if (tensor.histogram)
    json["histogram"] = {
        {"low", tensor.histogram->low}, {"high", tensor.histogram->high}, {"counts", tensor.histogram->counts}};
  return json;
}

Json measures_json(const CellMeasures& measures) {
  Json json{{"perplexity", measures.perplexity}};
  if (measures.perplexity_stderr) json["perplexity_stderr"] = *measures.perplexity_stderr;
  json["nll_nats_per_token"] = measures.nll_nats_per_token;
  if (measures.bits_per_byte) json["bits_per_byte"] = *measures.bits_per_byte;
  json["tokens_scored"] = measures.tokens_scored;
  json["window_nll"] = measures.window_nll;
  if (!measures.window_tokens.empty()) json["window_tokens"] = measures.window_tokens;
  if (const auto& divergence = measures.divergence) {
    json["divergence"] = {{"nats_per_token", divergence->nats_per_token}};
    if (divergence->stderr_nats) json["divergence"]["stderr"] = *divergence->stderr_nats;
    json["divergence"]["median"] = divergence->median;
    json["divergence"]["percentile_99"] = divergence->percentile_99;
    json["divergence"]["largest"] = divergence->largest;
    json["divergence"]["top1_agreement"] = divergence->top1_agreement;
    if (!divergence->window_nats.empty()) json["divergence"]["window_nats"] = divergence->window_nats;
  }
  json["bits_per_weight"] = measures.bits_per_weight;
  json["model_bits_per_weight"] = measures.model_bits_per_weight;
  json["model_bytes"] = measures.model_bytes;
  if (const auto& tuning = measures.tuning)
    json["tuning"] = {{"held_out_loss", tuning->held_out_loss},
                      {"trained_loss", tuning->trained_loss},
                      {"best_epoch", tuning->best_epoch}};
  json["tensors"] = Json::array();
  for (const TensorRecord& tensor : measures.tensors) json["tensors"].push_back(tensor_json(tensor));
  return json;
}

Json spread_json(const TimingSpread& spread) {
  return {{"median", spread.median}, {"min", spread.min}, {"max", spread.max}};
}

Json speed_json(const SpeedRecord& speed) {
  return {{"context", speed.context},
          {"prompt", speed.prompt},
          {"generate", speed.generate},
          {"cache_bytes", speed.cache_bytes},
          {"first_token_seconds", spread_json(speed.first_token_seconds)},
          {"tokens_per_second", spread_json(speed.tokens_per_second)}};
}

TensorRecord parse_tensor(const JsonFields& reader) {
  TensorRecord tensor{quant::parse_tensor_figures(reader), {}, {}};
  if (reader.has("palette")) tensor.palette = reader.figures("palette");
  if (reader.has("histogram")) {
    const JsonFields histogram = reader.object("histogram");
    tensor.histogram = Histogram{histogram.figure("low"), histogram.figure("high"), histogram.counts("counts")};
  }
  return tensor;
}

std::vector<std::uint64_t> window_tokens(const JsonFields& reader, std::size_t windows) {
  std::vector<std::uint64_t> tokens = reader.counts("window_tokens");
  NIBBLE_REQUIRE(tokens.size() == windows, FormatError,
                 "{}: 'window_tokens': expected a number for each of {} windows, got {}", reader.what(), windows,
                 tokens.size());
  return tokens;
}

CellMeasures parse_measures(const JsonFields& reader) {
  CellMeasures measures;
  measures.perplexity = reader.figure("perplexity");
  measures.perplexity_stderr = reader.optional_figure("perplexity_stderr");
  measures.nll_nats_per_token = reader.figure("nll_nats_per_token");
  measures.bits_per_byte = reader.optional_figure("bits_per_byte");
  measures.tokens_scored = reader.count("tokens_scored");
  measures.window_nll = reader.figures("window_nll");
  if (reader.has("window_tokens")) measures.window_tokens = window_tokens(reader, measures.window_nll.size());
  if (reader.has("divergence")) {
    const JsonFields divergence = reader.object("divergence");
    measures.divergence = DivergenceMeasures{.nats_per_token = divergence.figure("nats_per_token"),
                                             .stderr_nats = divergence.optional_figure("stderr"),
                                             .median = divergence.figure("median"),
                                             .percentile_99 = divergence.figure("percentile_99"),
                                             .largest = divergence.figure("largest"),
                                             .top1_agreement = divergence.figure("top1_agreement"),
                                             .window_nats = {}};
    if (divergence.has("window_nats")) measures.divergence->window_nats = divergence.figures("window_nats");
  }
  measures.bits_per_weight = reader.figure("bits_per_weight");
  measures.model_bits_per_weight = reader.figure("model_bits_per_weight");
  measures.model_bytes = reader.count("model_bytes");
  if (reader.has("tuning")) {
    const JsonFields tuning = reader.object("tuning");
    measures.tuning =
        TuningRecord{tuning.figures("held_out_loss"), tuning.figures("trained_loss"), tuning.count("best_epoch")};
  }
  for (const JsonFields& tensor : reader.objects("tensors")) measures.tensors.push_back(parse_tensor(tensor));
  return measures;
}

TimingSpread parse_spread(const JsonFields& reader) {
  return {reader.figure("median"), reader.figure("min"), reader.figure("max")};
}

SpeedRecord parse_speed(const JsonFields& reader) {
  return {.context = reader.count("context"),
          .prompt = reader.count("prompt"),
          .generate = reader.count("generate"),
          .cache_bytes = reader.count("cache_bytes"),
          .first_token_seconds = parse_spread(reader.object("first_token_seconds")),
          .tokens_per_second = parse_spread(reader.object("tokens_per_second"))};
}

// They go to terminals and into reports.
std::vector<std::string> parse_warnings(const JsonFields& reader) {
  constexpr std::size_t kMost = 16, kLongest = 400;
  const std::size_t count = reader.list("warnings").size();
  NIBBLE_REQUIRE(count <= kMost, FormatError, "{}: 'warnings': expected at most {}, got {}", reader.what(), kMost,
                 count);
  std::vector<std::string> warnings;
  for (const std::string& warning : reader.texts("warnings", count)) warnings.push_back(excerpt(warning, kLongest));
  return warnings;
}

// The members of an object in the order of the file.
Facts members(const Json& object, const std::string& place, bool texts) {
  NIBBLE_REQUIRE(object.is_object(), FormatError, "{}: expected an object", place);
  Facts facts;
  for (const auto& [name, value] : object.items()) {
    NIBBLE_REQUIRE(!texts || value.is_string(), FormatError, "{}.{}: expected a text", place, name);
    facts.emplace_back(name, texts ? value.get<std::string>() : value.dump());
  }
  return facts;
}

void add_once(Facts& facts, const std::string& name, const Json& value) {
  if (value.is_structured() || value.is_null() || !fact(facts, name).empty()) return;
  facts.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
}

// What a cell's calibration says under `key`, or `without` where it does not, if it collected one of `statistics`.
std::optional<std::string> of_statistics(const SweepRecord& record, std::initializer_list<std::string_view> statistics,
                                         const char* key, const char* without) {
  const Json json = Json::parse(fact(record.configuration, "calibration"), nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto text = [&](const char* name, const char* otherwise) {
    const auto value = json.find(name);
    return value != json.end() && value->is_string() ? value->get<std::string>() : std::string(otherwise);
  };
  const std::string collected = "," + text("collected", "") + ",";
  for (const std::string_view statistic : statistics)
    if (collected.find(fmt::format(",{},", statistic)) != std::string::npos) return text(key, without);
  return std::nullopt;
}

// Which sections a recipe has beside its defaults, and the bits of its budget, of which the defaults say nothing.
void add_sections(Facts& settings, const Json& recipe) {
  for (const char* section : {"layers", "tuning"})
    if (const auto found = recipe.find(section); found != recipe.end() && !found->empty())
      settings.emplace_back(section, "true");
  const auto budget = recipe.find("budget");
  if (budget == recipe.end() || !budget->is_object()) return;
  if (const auto bits = budget->find("bits_per_weight"); bits != budget->end() && bits->is_number())
    settings.emplace_back("budget", fmt::format("{}", bits->get<double>()));
}

// Readable and short: members of the outer two levels on lines of their own, elements of lists of objects too.
void append(const Json& json, std::size_t depth, std::string& text) {
  const bool list = json.is_array() && !json.empty() && json[0].is_object();
  if (depth > 2 || json.empty() || !(json.is_object() || list)) {
    text += json.dump(-1, ' ', false, Json::error_handler_t::replace);
    return;
  }
  text += list ? '[' : '{';
  bool first = true;
  for (const auto& [name, value] : json.items()) {
    text += first ? "\n" : ",\n";
    first = false;
    text.append(depth + 1, ' ');
    if (!list) text += Json(name).dump() + ": ";
    append(value, list ? 3 : depth + 1, text);
  }
  text += '\n';
  text.append(depth, ' ');
  text += list ? ']' : '}';
}

std::string text_of(const Json& json) {
  std::string text;
  append(json, 0, text);
  return text + "\n";
}

// In quotes where a shell would take it for more than a word.
std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-=:,@%";
  if (text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string word = "'";
  for (const char letter : text) word += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return word + "'";
}

}  // namespace

Json record_json(const SweepRecord& record) {
  Json json{{"format", kRecordFormat},
            {"version", kVersion},
            {"id", record.id},
            {"status", record.error ? "failed" : "ok"},
            {"labels", texts_json(record.labels)},
            {"configuration", values_json(record.configuration)}};
  if (record.error) json["error"] = {{"kind", record.error->kind}, {"message", record.error->message}};
  if (record.measures) json["measures"] = measures_json(*record.measures);
  if (!record.warnings.empty()) json["warnings"] = record.warnings;
  json["environment"] = texts_json(record.environment);
  json["sources"] = texts_json(record.sources);
  json["command"] = record.command;
  json["timings"] = Json::object();
  for (const auto& [name, value] : record.timings) json["timings"][name] = value;
  for (const SpeedRecord& speed : record.speeds) json["speeds"].push_back(speed_json(speed));
  return json;
}

std::string record_text(const SweepRecord& record) { return text_of(record_json(record)); }

std::string record_text_within(const SweepRecord& record, std::uint64_t most) {
  std::string text = record_text(record);
  if (text.size() > most && record.measures) {
    SweepRecord without = record;
    for (TensorRecord& tensor : without.measures->tensors) {
      tensor.palette.clear();
      tensor.histogram.reset();
    }
    text = record_text(without);
  }
  NIBBLE_REQUIRE(text.size() <= most, FormatError, "the record of '{}' takes {} bytes: no more than {} are read again",
                 cell_name(record), text.size(), most);
  return text;
}

std::string record_text_without_timings(const SweepRecord& record) {
  Json json = record_json(record);
  json.erase("timings");
  json.erase("speeds");
  json.erase("command");
  return text_of(json);
}

std::string repeat_command(const std::filesystem::path& file) {
  return fmt::format("nibble sweep --repeat {}", shell_word(file.string()));
}

SweepRecord parse_record(std::string_view text, std::string_view what) {
  const nlohmann::json json = parse_strict_json(text, what);  // refuses what the second reading would hide
  const JsonFields reader(json, std::string(what));
  NIBBLE_REQUIRE(reader.text_or("format", "") == kRecordFormat, FormatError,
                 "{}: not a sweep record (\"format\": \"{}\")", what, kRecordFormat);
  NIBBLE_REQUIRE(reader.count("version") == kVersion, FormatError, "{}: expected version {} of sweep records, got {}",
                 what, kVersion, reader.count("version"));
  SweepRecord record;
  record.id = reader.text("id");
  NIBBLE_REQUIRE(is_id(record.id), FormatError, "{}: expected an id of {} hex digits, got '{}'", what, kIdDigits,
                 record.id);
  const Json ordered = Json::parse(text);
  for (const char* key : {"labels", "configuration", "environment", "sources", "timings"}) reader.object(key);
  record.labels = members(ordered["labels"], fmt::format("{}: 'labels'", what), true);
  record.configuration = members(ordered["configuration"], fmt::format("{}: 'configuration'", what), false);
  record.environment = members(ordered["environment"], fmt::format("{}: 'environment'", what), true);
  record.sources = members(ordered["sources"], fmt::format("{}: 'sources'", what), true);
  record.command = reader.text("command");
  const JsonFields timings = reader.object("timings");
  for (const auto& [name, value] : ordered["timings"].items()) record.timings.emplace_back(name, timings.figure(name));
  if (reader.has("speeds"))
    for (const JsonFields& speed : reader.objects("speeds")) record.speeds.push_back(parse_speed(speed));

  if (reader.has("warnings")) record.warnings = parse_warnings(reader);

  const std::string& status = reader.text("status");
  NIBBLE_REQUIRE(status == "ok" || status == "failed", FormatError,
                 "{}: 'status': expected \"ok\" or \"failed\", got \"{}\"", what, status);
  if (status == "failed") {
    const JsonFields error = reader.object("error");
    record.error = CellError{error.text("kind"), error.text("message")};
  } else {
    record.measures = parse_measures(reader.object("measures"));
  }
  return record;
}

SweepRecord read_record(const std::filesystem::path& file) {
  return parse_record(read_text_file(file, kMaxRecordBytes), fmt::format("'{}'", file.string()));
}

std::vector<SweepRecord> read_records(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return {read_record(path)};
  std::vector<std::filesystem::path> files;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
    if (is_record_name(entry->path())) files.push_back(entry->path());
  NIBBLE_REQUIRE(!error, FormatError, "cannot read directory '{}': {}", path.string(), error.message());
  std::sort(files.begin(), files.end());
  std::vector<SweepRecord> records;
  for (const auto& file : files) records.push_back(read_record(file));
  return records;
}

bool is_id(std::string_view text) {
  return text.size() == kIdDigits &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_record_name(const std::filesystem::path& file) {
  return file.extension() == ".json" && is_id(file.stem().string());
}

nlohmann::ordered_json fact_json(const Facts& facts, std::string_view name) {
  const std::string_view text = fact(facts, name);
  try {
    parse_strict_json(text, name);
  } catch (const FormatError&) {
    return nullptr;
  }
  return Json::parse(text);
}

std::string_view fact(const Facts& facts, std::string_view name) {
  for (const auto& [key, value] : facts)
    if (key == name) return value;
  return {};
}

std::vector<std::string> warning_sentences(const SweepRecord& record) {
  std::vector<std::string> sentences;
  for (const std::string& warning : record.warnings)
    sentences.push_back(
        fmt::format("{}, {}: {}", fact(record.labels, "model"), fact(record.labels, "recipe"), warning));
  return sentences;
}

void set_fact(Facts& facts, std::string_view name, std::string_view value) {
  for (auto& [key, old] : facts)
    if (key == name) old = value;
}

bool is_cut_from_tokens(const nlohmann::json& calibration) {
  const auto sampling = calibration.find("sampling");
  return sampling != calibration.end() && sampling->is_string() &&
         sampling->get_ref<const std::string&>().starts_with(calib::kConsecutiveWindows);
}

std::optional<std::string> recorded_guide(const SweepRecord& record) {
  return of_statistics(record, {"guided-hessian", "output-hessian"}, "guide", "plain");
}

std::optional<std::string> recorded_flavour(const SweepRecord& record) {
  return of_statistics(record, {"fisher"}, "flavour", "sequence");
}

std::string cell_name(const SweepRecord& record) {
  return printable(fmt::format("{} · {} · {}", fact(record.labels, "model"), fact(record.labels, "recipe"),
                               fact(record.labels, "evaluation")));
}

std::string scored_text(const SweepRecord& record) {
  const std::string_view text = fact(record.configuration, "evaluation");
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::string(text);
  json.erase("divergence");
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool same_evaluation(const SweepRecord& a, const SweepRecord& b) { return scored_text(a) == scored_text(b); }

std::span<const std::uint64_t> divergence_weights(const SweepRecord& a, const SweepRecord& b) {
  for (const SweepRecord* record : {&a, &b})
    if (record->measures && !record->measures->window_tokens.empty()) return record->measures->window_tokens;
  return {};
}

std::span<const std::uint64_t> loss_weights(const SweepRecord& a, const SweepRecord& b) {
  const auto weights = divergence_weights(a, b);
  if (weights.empty()) return {};
  const Json evaluation = Json::parse(fact(a.configuration, "evaluation"), nullptr, false);
  const bool by_tokens = evaluation.is_object() && evaluation.value("average", Json()) == "tokens";
  return by_tokens ? weights : std::span<const std::uint64_t>();
}

Facts settings_of(const SweepRecord& record) {
  Facts settings = record.labels;
  for (const char* part : {"recipe", "evaluation"}) {
    const std::string_view text = fact(record.configuration, part);
    if (text.empty()) continue;
    Json json = Json::parse(text, nullptr, false);
    if (json.is_object() && json.contains("defaults")) {
      add_sections(settings, json);
      json = Json(json["defaults"]);
    }
    if (!json.is_object()) continue;
    for (const auto& [name, value] : json.items()) add_once(settings, name, value);
  }
  // Said by the names alone: of int4-block, and of fixed palettes.
  const std::string_view format = fact(settings, "format");
  if (format == "int4-block" || format == "block-palette") add_once(settings, "bits", 4);
  const Json calibration = Json::parse(fact(record.configuration, "calibration"), nullptr, false);
  for (const auto& [name, key] : kCalibrationSettings)
    if (calibration.is_object() && calibration.contains(key)) add_once(settings, std::string(name), calibration[key]);
  return settings;
}

}  // namespace nibble::eval

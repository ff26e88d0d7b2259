#include "eval/report/measurement_input.h"

#include <fmt/format.h>

#include <filesystem>
#include <limits>

#include "core/text/json.h"
#include "core/text/json_fields.h"

namespace nibble::eval {
namespace {

double number(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

std::string text(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// The compressors of one stream in order, each with its best transform.
StorageSection storage_section(const std::string& model, const nlohmann::json& stream) {
  StorageSection section{.model = model,
                         .stream = text(stream, "stream"),
                         .entropy = number(stream, "entropy_bits_per_value"),
                         .rows = {}};
  if (!stream.contains("results") || !stream["results"].is_array()) return section;
  for (const nlohmann::json& result : stream["results"]) {
    if (!result.is_object()) continue;
    const std::string codec = text(result, "codec");
    const double ratio = number(result, "ratio");
    if (section.rows.empty() || section.rows.back().codec != codec)
      section.rows.push_back({.codec = codec, .transform = "", .plain_ratio = ratio, .ratio = 0.0});
    StorageRow& row = section.rows.back();
    if (!(ratio > row.ratio)) continue;
    row.ratio = ratio;
    row.transform = text(result, "transform");
    row.bits_per_value = number(result, "bits_per_value");
    row.compress_rate = number(result, "compress_megabytes_per_second");
    row.decompress_rate = number(result, "decompress_megabytes_per_second");
  }
  return section;
}

TimingSpread spread(const JsonFields& values) {
  return {values.figure("median"), values.figure("min"), values.figure("max")};
}

// Speeds of one model with one cache and compute mode, as a cell whose evaluation is called by these.
Entry speed_entry(const nlohmann::json& json, const nlohmann::json& speeds, const std::string& what) {
  std::filesystem::path model = text(json, "model");
  if (!model.has_filename()) model = model.parent_path();  // "models/gpt2/"
  Entry entry;
  SweepRecord& record = entry.record;
  for (const JsonFields& speed : JsonFields(json, what).objects("speeds"))
    record.speeds.push_back({.context = speed.count("context"),
                             .prompt = speed.count("prompt"),
                             .generate = speed.count("generate"),
                             .cache_bytes = speed.count("cache_bytes"),
                             .first_token_seconds = spread(speed.object("ttft_seconds")),
                             .tokens_per_second = spread(speed.object("extend_tokens_per_second"))});
  const std::string cache = fmt::format("{} {}", text(speeds[0], "cache"), text(speeds[0], "cache_type"));
  record.labels = {{"model", model.filename().string()},
                   {"recipe", text(json, "method")},
                   {"evaluation", fmt::format("speed, {}, cache {}", text(json, "compute"), cache)}};
  if (const auto machine = json.find("machine"); machine != json.end() && machine->is_object()) {
    record.environment = {{"threads", machine->contains("threads") ? (*machine)["threads"].dump() : ""},
                          {"instruction_set", text(*machine, "isa")},
                          {"kernels", text(*machine, "gemm")}};
    if (const std::string processor = text(*machine, "processor"); !processor.empty())
      record.environment.insert(record.environment.begin(), {"processor", processor});
  }
  entry.settings = settings_of(record);
  return entry;
}

}  // namespace

void add_measurement(const nlohmann::json& json, const std::string& what, ReportInput& input) {
  if (!json.is_object()) return;
  if (const auto study = json.find("storage_study"); study != json.end() && study->is_array()) {
    for (const nlohmann::json& stream : *study)
      if (stream.is_object()) input.storage.push_back(storage_section(text(json, "model"), stream));
  }
  if (const auto speeds = json.find("speeds"); speeds != json.end() && speeds->is_array() && !speeds->empty())
    input.speeds.push_back(speed_entry(json, *speeds, what));
}

}  // namespace nibble::eval

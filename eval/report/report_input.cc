#include "eval/report/report_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/output_file.h"
#include "core/strict_json.h"

namespace nibble::eval {
namespace {

constexpr std::size_t kMaxNamesInMessage = 8;

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

std::vector<std::filesystem::path> files_of(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return {path};
  std::vector<std::filesystem::path> files;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().extension() == ".json" && entry->is_regular_file(error)) files.push_back(entry->path());
  NIBBLE_REQUIRE(!error, FormatError, "cannot read '{}': {}", path.string(), error.message());
  std::sort(files.begin(), files.end());
  return files;
}

class Loader {
 public:
  void add(const std::filesystem::path& file) {
    try {
      if (is_record_name(file)) {
        add_record(read_record(file));
      } else {
        add_other(file);
      }
    } catch (const FormatError& error) {
      input_.problems.emplace_back(error.what());
    }
  }

  ReportInput take() {
    for (Entry& entry : records_) {
      auto& place = !entry.ok() ? input_.failed : entry.record.speeds.empty() ? input_.entries : input_.speeds;
      place.push_back(std::move(entry));
    }
    for (auto* entries : {&input_.entries, &input_.speeds, &input_.failed})
      std::stable_sort(entries->begin(), entries->end(), [](const Entry& a, const Entry& b) {
        return std::tuple(a.setting("model"), a.setting("evaluation")) <
               std::tuple(b.setting("model"), b.setting("evaluation"));
      });
    return std::move(input_);
  }

 private:
  void add_record(SweepRecord record) {
    const auto [place, is_new] = by_id_.emplace(record.id, records_.size());
    Entry entry{.record = std::move(record), .settings = {}, .to_baseline = {}};
    entry.settings = settings_of(entry.record);
    if (is_new) {
      records_.push_back(std::move(entry));
    } else if (!records_[place->second].ok()) {
      records_[place->second] = std::move(entry);
    }
  }

  void add_other(const std::filesystem::path& file) {
    const std::string what = fmt::format("'{}'", file.string());
    const nlohmann::json json = parse_strict_json(read_text_file(file, kMaxRecordBytes), what);
    if (!json.is_object()) return;
    if (const auto study = json.find("storage_study"); study != json.end() && study->is_array()) {
      for (const nlohmann::json& stream : *study)
        if (stream.is_object()) input_.storage.push_back(storage_section(text(json, "model"), stream));
    }
  }

  ReportInput input_;
  std::vector<Entry> records_;
  std::map<std::string, std::size_t> by_id_;
};

}  // namespace

std::string Entry::comparable_key() const {
  return fmt::format("{}\n{}", fact(record.configuration, "model"), fact(record.configuration, "evaluation"));
}

ReportInput load_report_input(const std::vector<std::filesystem::path>& paths) {
  Loader loader;
  for (const std::filesystem::path& path : paths)
    for (const std::filesystem::path& file : files_of(path)) loader.add(file);
  ReportInput input = loader.take();
  NIBBLE_REQUIRE(
      !input.entries.empty() || !input.speeds.empty() || !input.failed.empty() || !input.storage.empty(), FormatError,
      "nothing to report in {}: expected sweep records (ID.json), as `nibble sweep` writes them{}",
      fmt::format("'{}'{}", paths.empty() ? "" : paths[0].string(), paths.size() > 1 ? " and the others" : ""),
      input.problems.empty() ? "" : "; " + input.problems.front());
  return input;
}

void compare_to_baseline(ReportInput& input, const std::string& baseline) {
  std::map<std::string, std::vector<Entry*>> groups;
  bool found = false;
  const auto is_baseline = [&](const Entry& entry) {
    if (!baseline.empty()) return entry.setting("recipe") == baseline;
    const std::string_view recipe = fact(entry.record.configuration, "recipe");
    return recipe == "null" || recipe.empty();
  };
  for (Entry& entry : input.entries) {
    entry.is_baseline = is_baseline(entry);
    found = found || entry.is_baseline;
    groups[entry.comparable_key()].push_back(&entry);
  }
  if (!baseline.empty() && !found) {
    std::string names;
    std::size_t count = 0;
    for (const Entry& entry : input.entries)
      if (count++ < kMaxNamesInMessage)
        names += fmt::format("{}'{}'", names.empty() ? "" : ", ", entry.setting("recipe"));
    throw InvalidArgument(fmt::format("no cell has the recipe '{}' for a baseline; there are {}{}", baseline, names,
                                      count > kMaxNamesInMessage ? ", …" : ""));
  }
  for (auto& [key, entries] : groups) {
    const auto base =
        std::find_if(entries.begin(), entries.end(), [](const Entry* entry) { return entry->is_baseline; });
    if (base == entries.end()) continue;
    std::vector<Entry*> tested;
    std::vector<double> p_values;
    for (Entry* entry : entries) {
      if (entry->is_baseline) continue;
      entry->to_baseline = paired_difference(entry->record.measures->window_nll, (*base)->record.measures->window_nll);
      if (!entry->to_baseline) continue;
      tested.push_back(entry);
      p_values.push_back(entry->to_baseline->p_value);
    }
    const std::vector<double> adjusted = holm_adjusted(p_values);
    for (std::size_t i = 0; i < tested.size(); ++i) tested[i]->adjusted_p = adjusted[i];
  }
}

}  // namespace nibble::eval

#include "eval/report/report_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/files/hash.h"
#include "core/files/output_file.h"
#include "core/text/excerpt.h"
#include "core/text/json.h"
#include "core/text/strict_json.h"
#include "eval/report/measurement_input.h"

namespace nibble::eval {
namespace {

constexpr std::size_t kLongestWarning = 600;

constexpr std::size_t kMaxNamesInMessage = 8;

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

std::string fingerprint_of_model(const SweepRecord& record) {
  const auto json = nlohmann::json::parse(fact(record.configuration, "model"), nullptr, false);
  if (!json.is_object()) return {};
  const auto found = json.find("fingerprint");
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

class Loader {
 public:
  void add(const std::filesystem::path& file) {
    std::error_code unresolved;  // then reading it says what is wrong
    const std::filesystem::path canonical = std::filesystem::canonical(file, unresolved);
    if (!unresolved && !files_.insert(canonical).second) return;
    try {
      if (is_record_name(file)) {
        add_record(read_record(file), file);
      } else {
        add_other(file);
      }
    } catch (const FormatError& error) {
      input_.problems.emplace_back(error.what());
    }
  }

  ReportInput take() {
    drop_without_divergence();
    tell_models_apart();
    for (Entry& entry : records_) {
      pass_on_warnings(entry);
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
  // Of cells of one model once.
  void pass_on_warnings(const Entry& entry) {
    for (const std::string& warning : entry.record.warnings) {
      const std::string sentence =
          excerpt(fmt::format("{}, {}: {}", entry.setting("model"), entry.setting("recipe"), warning), kLongestWarning);
      if (warned_.insert(sentence).second) input_.warnings.push_back(sentence);
    }
  }

  // One that was copied or renamed does not lie where its own command says.
  void add_record(SweepRecord record, const std::filesystem::path& file) {
    record.command = repeat_command(file);
    const auto [place, is_new] = by_id_.emplace(record.id, records_.size());
    Entry entry{.record = std::move(record), .settings = {}, .to_baseline = {}};
    entry.settings = settings_of(entry.record);
    if (is_new) return records_.push_back(std::move(entry));
    Entry& known = records_[place->second];
    if (!known.ok()) std::swap(known, entry);
    tell_other_names(known.record.labels, entry.record.labels);
  }

  // Another sweep may have called things otherwise. Recipes often have a name of their settings in one, which is none
  // to look for, and one of their own in the other.
  void tell_other_names(const Facts& counted, const Facts& left_out) {
    for (const char* kind : {"model", "evaluation"}) {
      const std::string_view name = fact(counted, kind), other = fact(left_out, kind);
      if (name == other) continue;
      const std::string sentence =
          excerpt(fmt::format("{} '{}' says the same as '{}': cells that both have count once, under that name", kind,
                              other, name),
                  kLongestWarning);
      if (warned_.insert(sentence).second) input_.warnings.push_back(sentence);
    }
  }

  void add_other(const std::filesystem::path& file) {
    const std::string what = fmt::format("'{}'", file.string());
    const std::string text = read_text_file(file, kMaxRecordBytes);
    const nlohmann::json json = parse_strict_json(text, what);
    const auto format = json.is_object() ? json.find("format") : json.end();
    if (format != json.end() && *format == kRecordFormat) return add_record(parse_record(text, what), file);  // renamed
    if (measured_.insert(Hasher().update(text).hex()).second) add_measurement(json, what, input_);
  }

  // A cell that was measured again, with the divergence besides, counts once.
  void drop_without_divergence() {
    const auto key = [](const Entry& entry) {
      const Facts& facts = entry.record.configuration;
      return std::tuple(fact(facts, "model"), fact(facts, "recipe"), fact(facts, "calibration"),
                        scored_text(entry.record), entry.setting("evaluation"));
    };
    std::set<decltype(key(records_[0]))> with;
    for (const Entry& entry : records_)
      if (entry.ok() && entry.record.measures->divergence) with.insert(key(entry));
    std::erase_if(records_, [&](const Entry& entry) {
      return entry.ok() && !entry.record.measures->divergence && with.contains(key(entry));
    });
  }

  // Checkpoints of one name, as when one was trained on between two runs, are models of their own. The records' labels,
  // by which published figures are found, stay.
  void tell_models_apart() {
    std::map<std::string, std::set<std::string>> fingerprints;
    for (const Entry& entry : records_)
      fingerprints[std::string(entry.setting("model"))].insert(fingerprint_of_model(entry.record));
    for (const auto& [name, different] : fingerprints)
      if (different.size() > 1)
        input_.warnings.push_back(fmt::format(
            "{} checkpoints are called '{}': the beginning of its fingerprint tells each", different.size(), name));
    for (Entry& entry : records_) {
      const std::string name(entry.setting("model"));
      if (fingerprints[name].size() < 2) continue;
      set_fact(entry.settings, "model", fmt::format("{} ({:.8})", name, fingerprint_of_model(entry.record)));
    }
  }

  std::set<std::filesystem::path> files_;
  std::set<std::string> measured_;  // hashes of other commands' texts: copies count once, as records of one id do
  std::set<std::string> warned_;
  ReportInput input_;
  std::vector<Entry> records_;
  std::map<std::string, std::size_t> by_id_;
};

}  // namespace

ReportInput load_report_input(const std::vector<std::filesystem::path>& paths) {
  Loader loader;
  for (const std::filesystem::path& path : paths)
    for (const std::filesystem::path& file : files_of(path)) loader.add(file);
  ReportInput input = loader.take();
  NIBBLE_REQUIRE(
      !input.entries.empty() || !input.speeds.empty() || !input.failed.empty() || !input.storage.empty(), FormatError,
      "nothing to report in {}: expected sweep records (ID.json), as `nibble sweep` writes them, or what `nibble speed "
      "--json` "
      "and `nibble inspect --compress --json` print{}",
      fmt::format("'{}'{}", paths.empty() ? "" : paths[0].string(), paths.size() > 1 ? " and the others" : ""),
      input.problems.empty() ? "" : "; " + input.problems.front());
  return input;
}

void compare_to_baseline(ReportInput& input, const std::string& baseline) {
  std::map<std::string, std::vector<Entry*>> groups;
  bool found = false;
  const auto may_be = [&](const Entry& entry) {
    if (!baseline.empty()) return entry.setting("recipe") == baseline;
    const std::string_view recipe = fact(entry.record.configuration, "recipe");
    return recipe == "null" || recipe.empty();
  };
  for (auto* entries : {&input.entries, &input.pooled})
    for (Entry& entry : *entries) {
      found = found || may_be(entry);
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
    const auto base = std::ranges::find_if(entries, [&](const Entry* entry) { return may_be(*entry); });
    if (base == entries.end()) continue;
    (*base)->is_baseline = true;
    if (const auto count = std::ranges::count_if(entries, [&](const Entry* entry) { return may_be(*entry); });
        count > 1)
      input.warnings.push_back(fmt::format("{} cells of {}, {} are called '{}': differences are from the first of them",
                                           count, (*base)->setting("model"), (*base)->setting("evaluation"),
                                           (*base)->setting("recipe")));
    std::vector<Entry*> tested;
    std::vector<double> p_values;
    for (Entry* entry : entries) {
      if (entry->is_baseline) continue;
      entry->to_baseline = paired_difference(entry->record.measures->window_nll, (*base)->record.measures->window_nll,
                                             loss_weights(entry->record, (*base)->record));
      if (!entry->to_baseline) continue;
      tested.push_back(entry);
      p_values.push_back(entry->to_baseline->p_value);
    }
    const std::vector<double> adjusted = holm_adjusted(p_values);
    for (std::size_t i = 0; i < tested.size(); ++i) tested[i]->adjusted_p = adjusted[i];
  }
}

}  // namespace nibble::eval

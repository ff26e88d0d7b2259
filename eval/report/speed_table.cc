#include <fmt/format.h>

#include <set>

#include "eval/report/tables.h"

namespace nibble::eval {
namespace {

std::string figure(double value) { return value < 100.0 ? fmt::format("{:.2f}", value) : fmt::format("{:.0f}", value); }

// Speeds, unlike losses, depend on the machine. What an entry does not say of it (the processor, in what earlier
// versions of `nibble speed` printed) may be that of the others.
std::vector<std::string> machine_warnings(const Entries& entries) {
  for (const char* key : {"processor", "threads"}) {
    std::set<std::string_view> values;
    for (const Entry* entry : entries)
      if (const std::string_view value = fact(entry->record.environment, key); !value.empty()) values.insert(value);
    if (values.size() > 1) return {"speeds of different processors or numbers of threads stand side by side"};
  }
  return {};
}

}  // namespace

ReportTable speed_table(const Entries& entries) {
  ReportTable table{.title = "Speed",
                    .caption =
                        "Greedy decoding behind a prompt of random tokens: medians of the runs, below them the "
                        "slowest and the fastest.",
                    .columns = {"model", "recipe", "evaluation", "context", "prompt", "first token, ms", "generated",
                                "tokens/s", "cache, kB"},
                    .rows = {},
                    .warnings = machine_warnings(entries)};
  const auto word = [](std::string_view text) { return TableCell{.text = std::string(text), .is_number = false}; };
  const auto count = [](std::uint64_t value) { return TableCell{.text = fmt::format("{}", value)}; };
  const auto spread = [](const TimingSpread& of, double scale) {
    return TableCell{.text = figure(scale * of.median),
                     .detail = fmt::format("{} to {}", figure(scale * of.min), figure(scale * of.max))};
  };
  for (const Entry* entry : entries)
    for (const SpeedRecord& speed : entry->record.speeds)
      table.rows.push_back({word(entry->setting("model")), word(entry->setting("recipe")),
                            word(entry->setting("evaluation")), count(speed.context), count(speed.prompt),
                            spread(speed.first_token_seconds, 1e3), count(speed.generate),
                            spread(speed.tokens_per_second, 1.0), count(speed.cache_bytes / 1000)});
  return table;
}

}  // namespace nibble::eval

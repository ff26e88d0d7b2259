#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "eval/report/text_escape.h"
#include "eval/report/writers.h"

namespace nibble::eval {
namespace {

std::string value(double number) { return std::isfinite(number) ? fmt::format("{}", number) : ""; }
std::string value(const std::optional<double>& number) { return number ? value(*number) : ""; }

std::vector<std::string> setting_names(const ReportInput& input) {
  std::vector<std::string> names;
  for (const auto* entries : {&input.entries, &input.speeds, &input.failed})
    for (const Entry& entry : *entries)
      for (const auto& [name, text] : entry.settings)
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

std::string timing(const SweepRecord& record, std::string_view name) {
  for (const auto& [key, seconds] : record.timings)
    if (key == name) return value(seconds);
  return {};
}

constexpr std::string_view kMeasures =
    ",perplexity,perplexity_stderr,nll_nats_per_token,bits_per_byte,tokens_scored,bits_per_weight,"
    "model_bits_per_weight,model_bytes,kl_nats_per_token,kl_stderr_nats,top1_agreement,loss_over_baseline_nats,"
    "loss_stderr_nats,p_value,p_value_holm,quantize_seconds,evaluate_seconds";
constexpr std::string_view kSpeeds =
    ",cache_positions,prompt_tokens,generated_tokens,first_token_seconds,tokens_per_second";

std::vector<std::string> measure_values(const Entry& entry) {
  if (!entry.record.measures) return std::vector<std::string>(17);
  const CellMeasures& m = *entry.record.measures;
  return {value(m.perplexity),
          value(m.perplexity_stderr),
          value(m.nll_nats_per_token),
          value(m.bits_per_byte),
          std::to_string(m.tokens_scored),
          value(m.bits_per_weight),
          value(m.model_bits_per_weight),
          std::to_string(m.model_bytes),
          m.divergence ? value(m.divergence->nats_per_token) : "",
          m.divergence ? value(m.divergence->stderr_nats) : "",
          m.divergence ? value(m.divergence->top1_agreement) : "",
          entry.to_baseline ? value(entry.to_baseline->mean) : "",
          entry.to_baseline ? value(entry.to_baseline->standard_error) : "",
          entry.to_baseline ? value(entry.to_baseline->p_value) : "",
          entry.to_baseline ? value(entry.adjusted_p) : "",
          timing(entry.record, "quantize_seconds"),
          timing(entry.record, "evaluate_seconds")};
}

std::vector<std::string> speed_values(const SpeedRecord* speed) {
  if (speed == nullptr) return std::vector<std::string>(5);
  return {std::to_string(speed->context), std::to_string(speed->prompt), std::to_string(speed->generate),
          value(speed->first_token_seconds.median), value(speed->tokens_per_second.median)};
}

std::string line(const std::vector<std::string>& names, const Entry& entry, const SpeedRecord* speed) {
  const SweepRecord& record = entry.record;
  std::string text = csv_text(record.id) + (record.error ? ",\"failed\"" : ",\"ok\"");
  for (const std::string& name : names) text += "," + csv_text(entry.setting(name));
  for (const std::string& number : measure_values(entry)) text += "," + number;
  for (const std::string& number : speed_values(speed)) text += "," + number;
  text += "," + csv_text(fact(record.environment, "commit"));
  text += "," + csv_text(record.error ? fmt::format("{}: {}", record.error->kind, record.error->message) : "");
  return text + "\r\n";
}

}  // namespace

std::string csv_report(const ReportInput& input) {
  const std::vector<std::string> names = setting_names(input);
  std::string text = "\"id\",\"status\"";
  for (const std::string& name : names) text += "," + csv_text(name);
  text += fmt::format("{}{},commit,error\r\n", kMeasures, kSpeeds);
  for (const auto* entries : {&input.entries, &input.failed})
    for (const Entry& entry : *entries) text += line(names, entry, nullptr);
  for (const Entry& entry : input.speeds)
    for (const SpeedRecord& speed : entry.record.speeds) text += line(names, entry, &speed);
  return text;
}

}  // namespace nibble::eval

#include "cli/show/speed_figures.h"

#include <fmt/format.h>

#include <limits>

#include "cli/arguments/cache_arguments.h"
#include "cli/terminal/human.h"
#include "cli/terminal/output.h"
#include "cli/terminal/table.h"
#include "core/machine/isa.h"
#include "core/machine/memory.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/gemm.h"
#include "core/text/json.h"
#include "eval/speed/work.h"
#include "eval/sweep/environment.h"

namespace nibble::cli {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kGemmTokens = 512;  // rows of the products that the machine's rate is measured on

// What a row's times come to.
struct Rates {
  double prompt_tokens = 0.0, prompt_flops = 0.0, token_bytes = 0.0;  // all per second
  double gemm_share = kNaN, bf16_gemm_share = kNaN, peak_share = kNaN, bandwidth_share = kNaN;
};

Rates rates_of(const SpeedReport& report, const SpeedRow& row) {
  Rates rates;
  const double seconds = row.result.first_token_seconds.median;
  rates.prompt_tokens = static_cast<double>(row.options.prompt) / seconds;
  rates.prompt_flops = model::prompt_flops(report.architecture, row.options.prompt) / seconds;
  rates.token_bytes = static_cast<double>(report.token_bytes) * row.result.tokens_per_second.median;
  if (report.limits) {
    rates.gemm_share = rates.prompt_flops / report.limits->gemm_flops_per_second;
    if (report.limits->bf16_gemm_flops_per_second > 0.0)
      rates.bf16_gemm_share = rates.prompt_flops / report.limits->bf16_gemm_flops_per_second;
    rates.peak_share = rates.prompt_flops / report.limits->peak_flops_per_second;
    rates.bandwidth_share = rates.token_bytes / report.limits->read_bytes_per_second;
  }
  return rates;
}

std::string percent(double share) { return share == share ? fmt::format("{:.1f} %", 100.0 * share) : "-"; }

nlohmann::ordered_json spread_json(const eval::Spread& spread) {
  return {{"median", spread.median}, {"min", spread.min}, {"max", spread.max}};
}

}  // namespace

void measure_speed_report(const quant::LoadedModel& model, bool skip_limits, const ProgressSink& progress,
                          SpeedReport& report) {
  report.architecture = model.architecture;
  report.model_bytes = model.checkpoint->tensor_bytes();
  report.token_bytes = model.bytes_per_token;
  report.head_bytes = model.head_bytes_per_token;
  if (report.token_bytes == 0) {  // not known in memory: both as they lie in the file
    const eval::WeightBytes weights(*model.checkpoint);
    report.token_bytes = weights.per_token();
    report.head_bytes = weights.head();
  }
  for (SpeedRow& row : report.rows) {
    row.options.progress = progress;
    row.result = eval::measure_speed(*model.transformer, row.options);
  }
  report.peak_resident_bytes = memory_use().peak_resident_bytes;  // before the machine's own gigabyte
  if (skip_limits) return;
  report.limits = {.read_bytes_per_second = eval::measure_read_bandwidth(eval::bandwidth_working_set(), 5),
                   .gemm_flops_per_second = eval::measure_gemm_rate(model.architecture, kGemmTokens, 3),
                   .bf16_gemm_flops_per_second =
                       report.bf16 ? eval::measure_bf16_gemm_rate(model.architecture, kGemmTokens, 3) : 0.0,
                   .peak_flops_per_second = eval::measure_peak_flops()};
}

void warn_of_cut(const eval::SpeedOptions& measured, std::size_t prompt, std::size_t generate) {
  if (measured.prompt == prompt && measured.generate == generate) return;
  warn(fmt::format("{} generated tokens after a prompt of {} do not fit {}: {} after {} are measured", generate, prompt,
                   measured.context > 0 ? fmt::format("a context of {}", measured.context) : "the model's context",
                   measured.generate, measured.prompt));
}

nlohmann::ordered_json speed_json(const SpeedReport& report) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const SpeedRow& row : report.rows) {
    const Rates rates = rates_of(report, row);
    rows.push_back({{"context", row.result.context},
                    {"prompt", row.options.prompt},
                    {"generate", row.options.generate},
                    {"repeat", row.options.repeat},
                    {"cache", cache_kind_name(row.options.cache.kind)},
                    {"cache_type", cache_type_name(row.options.cache.type)},
                    {"cache_bytes", row.result.cache_bytes},
                    {"ttft_seconds", spread_json(row.result.first_token_seconds)},
                    {"extend_tokens_per_second", spread_json(row.result.tokens_per_second)},
                    {"prompt_tokens_per_second", rates.prompt_tokens},
                    {"prompt_flops_per_second", rates.prompt_flops},
                    {"prompt_share_of_gemm_rate", rates.gemm_share},
                    {"prompt_share_of_peak", rates.peak_share},
                    {"weight_bytes_per_second", rates.token_bytes},
                    {"share_of_read_bandwidth", rates.bandwidth_share}});
    if (report.bf16) rows.back()["prompt_share_of_bf16_gemm_rate"] = rates.bf16_gemm_share;
  }
  const eval::Facts environment = eval::run_environment({});
  nlohmann::ordered_json machine = {{"processor", eval::fact(environment, "processor")},
                                    {"threads", thread_count()},
                                    {"isa", isa_name(active_isa())},
                                    {"gemm", gemm_identity()}};
  if (report.limits) {
    machine["read_bytes_per_second"] = report.limits->read_bytes_per_second;
    machine["gemm_flops_per_second"] = report.limits->gemm_flops_per_second;
    if (report.bf16) machine["bf16_gemm_flops_per_second"] = report.limits->bf16_gemm_flops_per_second;
    machine["peak_flops_per_second"] = report.limits->peak_flops_per_second;
  }
  return {{"model_bytes", report.model_bytes}, {"weight_bytes_per_token", report.token_bytes},
          {"head_bytes", report.head_bytes},   {"peak_resident_bytes", report.peak_resident_bytes},
          {"machine", std::move(machine)},     {"speeds", std::move(rows)}};
}

std::vector<std::pair<std::string, std::string>> speed_facts(const SpeedReport& report) {
  std::vector<std::pair<std::string, std::string>> facts = {
      {"sizes", fmt::format("{} of tensors, {} read per token ({} of it the head), peak resident {}",
                            human_bytes(report.model_bytes), human_bytes(report.token_bytes),
                            human_bytes(report.head_bytes), human_bytes(report.peak_resident_bytes))}};
  std::string machine = fmt::format("{} thread{}, {}", thread_count(), thread_count() == 1 ? "" : "s", gemm_identity());
  if (report.limits) {
    machine += fmt::format("; reads {:.1f} GB/s, products {:.0f} GFLOP/s of {:.0f} at most",
                           report.limits->read_bytes_per_second / 1e9, report.limits->gemm_flops_per_second / 1e9,
                           report.limits->peak_flops_per_second / 1e9);
    if (const double bf16 = report.limits->bf16_gemm_flops_per_second; bf16 > 0.0)
      machine += fmt::format("; in bf16 {:.0f}", bf16 / 1e9);
  }
  facts.emplace_back("machine", std::move(machine));
  return facts;
}

std::string speed_table(const SpeedReport& report) {
  Table table({{"context"},
               {"prompt"},
               {"first token, ms"},
               {"min to max"},
               {"prompt tok/s"},
               {report.bf16 ? "of bf16 GEMM" : "of GEMM"},
               {"generated"},
               {"tok/s"},
               {"min to max"},
               {"GB/s"},
               {"of reading"},
               {"cache"}});
  for (const SpeedRow& row : report.rows) {
    const Rates rates = rates_of(report, row);
    const auto& [first, extend, context, cache_bytes] = row.result;
    table.add_row(
        {with_separators(context), with_separators(row.options.prompt), fmt::format("{:.1f}", first.median * 1e3),
         fmt::format("{:.1f}-{:.1f}", first.min * 1e3, first.max * 1e3), human_count(rates.prompt_tokens),
         percent(report.bf16 ? rates.bf16_gemm_share : rates.gemm_share), with_separators(row.options.generate),
         human_count(extend.median), fmt::format("{}-{}", human_count(extend.min), human_count(extend.max)),
         fmt::format("{:.1f}", rates.token_bytes / 1e9), percent(rates.bandwidth_share), human_bytes(cache_bytes)});
  }
  return table.text();
}

std::string speed_csv(const std::string& model, const SpeedReport& report) {
  std::string text =
      "model,threads,isa,cache,cache_type,context,prompt,generate,ttft_seconds,ttft_min,ttft_max,"
      "tokens_per_second,tokens_per_second_min,tokens_per_second_max,share_of_read_bandwidth,"
      "prompt_tokens_per_second,prompt_share_of_gemm_rate,cache_bytes,model_bytes,weight_bytes_per_token\n";
  std::string quoted = "\"";
  for (const char c : model) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  quoted += '"';
  for (const SpeedRow& row : report.rows) {
    const Rates rates = rates_of(report, row);
    const auto& [first, extend, context, cache_bytes] = row.result;
    const auto share = [](double value) { return value == value ? fmt::format("{:.4f}", value) : std::string(); };
    text += fmt::format("{},{},{},{},{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{},{:.6g},{},{},{},{}\n",
                        quoted, thread_count(), isa_name(active_isa()), cache_kind_name(row.options.cache.kind),
                        cache_type_name(row.options.cache.type), context, row.options.prompt, row.options.generate,
                        first.median, first.min, first.max, extend.median, extend.min, extend.max,
                        share(rates.bandwidth_share), rates.prompt_tokens, share(rates.gemm_share), cache_bytes,
                        report.model_bytes, report.token_bytes);
  }
  return text;
}

}  // namespace nibble::cli

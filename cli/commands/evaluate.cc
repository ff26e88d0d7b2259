#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments/compute_option.h"
#include "cli/arguments/options.h"
#include "cli/arguments/token_input.h"
#include "cli/command.h"
#include "cli/show/comparison_figures.h"
#include "cli/show/model_fact.h"
#include "cli/show/protocol_fact.h"
#include "cli/show/speed_figures.h"
#include "cli/show/unexpected.h"
#include "cli/terminal/human.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress_bar.h"
#include "cli/terminal/table.h"
#include "core/text/estimate.h"
#include "core/text/json.h"
#include "datasets/eval_windows.h"
#include "eval/quality/text_parts.h"
#include "eval/quality/text_quality.h"
#include "model/architecture/architecture.h"
#include "quant/store/load_model.h"

namespace nibble::cli {
namespace {

struct EvaluateArguments {
  CommonOptions common;
  std::filesystem::path model, reference;
  TokenInputOptions input;
  std::string protocol = "sliding", compute = "exact";
  std::uint64_t context = 0, stride = 0, prompt = 0, generate = 64, repeat = 3;
  bool skip_limits = false;
};

void run(const EvaluateArguments& arguments) {
  arguments.common.apply();
  const quant::LoadedModel model = load_to_compute(arguments.model, arguments.compute);
  warn_of_unexpected(*model.checkpoint);
  const TokenInput input = read_token_input(arguments.input, arguments.model, model.architecture.vocabulary);
  eval::PerplexityOptions options;
  options.protocol = datasets::protocol_from_name(arguments.protocol);
  options.context = arguments.context > 0 ? arguments.context : model.architecture.max_positions;
  if (const auto warning = model::warning_of_length(model.architecture, options.context)) warn(*warning);
  options.stride = stride_of(options, arguments.stride);
  options.text_ends = input.text_ends;
  options.bos = eval::window_bos(options.protocol, arguments.input.bos, input.tokenizer.get());
  ProgressBar bar = ProgressBar::for_process(arguments.common.quiet);
  options.progress = bar.sink();
  quant::LoadedModel reference;
  if (!arguments.reference.empty()) {
    require_agreement(input, arguments.reference);
    reference = quant::load_model(arguments.reference);
  }
  const eval::TextQuality quality =
      eval::text_quality(*model.transformer, reference.transformer.get(), input.tokens, input.tokenizer.get(), options);
  reference = {};

  eval::SpeedOptions speed;
  const eval::Fit fit = eval::fit_context(
      model.architecture.max_positions,
      arguments.prompt > 0 ? arguments.prompt : std::min<std::size_t>(512, model.architecture.max_positions / 2),
      arguments.generate);
  speed.prompt = fit.prompt;
  speed.generate = fit.generate;
  speed.repeat = arguments.repeat;
  warn_of_cut(speed, arguments.prompt > 0 ? arguments.prompt : speed.prompt, arguments.generate);
  SpeedReport report;
  report.rows = {{speed, {}}};
  report.bf16 = arguments.compute == "bf16";
  measure_speed_report(model, arguments.skip_limits, bar.sink(), report);
  bar.finish();

  const eval::PerplexityResult& result = quality.perplexity;
  if (quality.warning) warn(*quality.warning);
  const std::vector<eval::TextPart> parts =
      eval::text_parts(quality, options, input.tokens.size(), model.architecture.max_positions);
  if (arguments.common.json) {
    nlohmann::ordered_json object = {{"model", arguments.model.string()},
                                     {"method", model.method},
                                     {"bits_per_weight", model.bits_per_weight},
                                     {"compute", arguments.compute},
                                     {"kernels", model.kernels},
                                     {"protocol", arguments.protocol},
                                     {"context", options.context},
                                     {"stride", options.stride},
                                     {"average", average_name(options)},
                                     {"bos", nullptr},
                                     {"perplexity", result.perplexity},
                                     {"perplexity_stderr", result.perplexity_stderr},
                                     {"nll_nats_per_token", result.nll_nats_per_token},
                                     {"bits_per_byte", result.bits_per_byte},
                                     {"tokens_scored", result.tokens_scored},
                                     {"tokenizer_hash", nullptr},
                                     {"tokens_hash", input.tokens_hash}};
    if (options.bos) object["bos"] = *options.bos;
    if (input.tokenizer) object["tokenizer_hash"] = input.tokenizer->fingerprint();
    if (!arguments.input.use.empty()) object["use"] = arguments.input.use;
    object["texts"] = texts_json(input, parts);
    if (quality.comparison) object["reference"] = comparison_json(arguments.reference.string(), *quality.comparison);
    object["speed"] = speed_json(report);
    print_json(object);
    return;
  }
  std::vector<std::pair<std::string, std::string>> facts = {
      {"model", model_fact(arguments.model, model)},
      {"kernels", kernels_fact(arguments.compute, model)},
      {"protocol", fmt::format("{}, {} tokens scored", protocol_fact(options), with_separators(result.tokens_scored))},
      {"perplexity", estimate_text(result.perplexity, result.perplexity_stderr, 4)}};
  if (quality.comparison)
    for (auto& fact : comparison_facts(arguments.reference.string(), *quality.comparison))
      facts.push_back(std::move(fact));
  for (auto& fact : texts_facts(input, arguments.input.use, parts)) facts.push_back(std::move(fact));
  for (auto& fact : speed_facts(report)) facts.push_back(std::move(fact));
  print(aligned_facts(facts) + "\n" + speed_table(report));
}

}  // namespace

Command evaluate_command(CLI::App& program) {
  auto arguments = std::make_shared<EvaluateArguments>();
  CLI::App* app =
      program.add_subcommand("evaluate", "Perplexity, divergence from the float model and speed, in one table");
  add_model(*app, arguments->model);
  add_text_input(*app, arguments->input);
  add_path(*app, "--reference", arguments->reference, "MODEL", "Float model to compare with");
  app->add_option("--protocol", arguments->protocol, "Windows: sliding, blocks or half (docs/protocols.md)")
      ->type_name("NAME")
      ->capture_default_str();
  add_count(*app, "--context", arguments->context, "Tokens in a window [default: the model's context]", {.low = 2});
  add_count(*app, "--stride", arguments->stride, "Tokens between windows, sliding only [default: half the context]");
  add_compute(*app, arguments->compute);
  add_count(*app, "--prompt", arguments->prompt, "Speed: tokens of the prompt [default: 512, or half the context]");
  add_count(*app, "--generate", arguments->generate, "Speed: tokens generated after the first [default: 64]");
  add_count(*app, "--repeat", arguments->repeat, "Speed: runs that count [default: 3]");
  app->add_flag("--skip-limits", arguments->skip_limits, "Do not measure the machine's read bandwidth and GEMM rate");
  add_common_options(*app, arguments->common);
  app->footer(
      "Example:\n"
      "  nibble evaluate build/gpt2-demo-int4 --text datasets/demo/eval.txt --reference datasets/demo/gpt2-demo");
  return {app, [arguments] { run(*arguments); }};
}

}  // namespace nibble::cli

#include "eval/quality/perplexity.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/arguments/attention_names.h"
#include "cli/arguments/compute_option.h"
#include "cli/arguments/options.h"
#include "cli/arguments/token_input.h"
#include "cli/command.h"
#include "cli/show/comparison_figures.h"
#include "cli/show/model_fact.h"
#include "cli/show/protocol_fact.h"
#include "cli/show/unexpected.h"
#include "cli/terminal/human.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress_bar.h"
#include "cli/terminal/table.h"
#include "core/error.h"
#include "core/machine/memory.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/gemm.h"
#include "core/text/choice.h"
#include "core/text/estimate.h"
#include "core/text/json.h"
#include "datasets/eval_windows.h"
#include "eval/quality/average_names.h"
#include "eval/quality/text_parts.h"
#include "eval/quality/text_quality.h"
#include "model/architecture/architecture.h"
#include "quant/store/load_model.h"

namespace nibble::cli {
namespace {

using datasets::Protocol;
using eval::Average;

struct PerplexityArguments {
  CommonOptions common;
  std::filesystem::path model, reference;
  TokenInputOptions input;
  std::string protocol = "sliding", average = "windows", attention = "fused", compute = "reference";
  std::uint64_t context = 0, stride = 0;
  const CLI::Option* average_option = nullptr;
};

// The options with every default filled in, so that they can be printed beside the result.
eval::PerplexityOptions options_of(const PerplexityArguments& arguments, const model::Architecture& architecture) {
  eval::PerplexityOptions options;
  options.protocol = datasets::protocol_from_name(arguments.protocol);
  options.average = choose("--average", arguments.average, eval::kAverages);
  options.forward.attention = choose("--attention", arguments.attention, kAttentions);
  const bool sliding = options.protocol == Protocol::kSliding;
  NIBBLE_REQUIRE(sliding || arguments.average_option->count() == 0, InvalidArgument,
                 "--average belongs to --protocol sliding; '{}' has one fixed mean", arguments.protocol);
  options.context = arguments.context > 0 ? arguments.context : architecture.max_positions;
  options.stride = stride_of(options, arguments.stride);
  return options;
}

struct Report {
  const PerplexityArguments& arguments;
  const quant::LoadedModel& model;
  const TokenInput& input;
  const eval::PerplexityOptions& options;
  const eval::PerplexityResult& result;
  const std::optional<eval::ReferenceComparison>& comparison;
  const std::vector<eval::TextPart>& parts;
  double seconds = 0.0;
  std::uint64_t peak_anonymous_bytes = 0;
};

nlohmann::ordered_json json_of(const Report& report) {
  const auto& [arguments, model, input, options, result, comparison, parts, seconds, peak] = report;
  nlohmann::ordered_json object = {
      {"model", arguments.model.string()},
      {"method", model.method},
      {"bits_per_weight", model.bits_per_weight},
      {"model_bits_per_weight", model.model_bits_per_weight},
      {"model_bytes", model.checkpoint->tensor_bytes()},
      {"perplexity", result.perplexity},
      {"perplexity_stderr", result.perplexity_stderr},
      {"nll_nats_per_token", result.nll_nats_per_token},
      {"bits_per_byte", result.bits_per_byte},
      {"protocol", datasets::protocol_name(options.protocol)},
      {"context", options.context},
      {"stride", options.stride},
      {"average", average_name(options)},
      {"bos", nullptr},
      {"attention", name_of(options.forward.attention, kAttentions)},
      {"compute", arguments.compute},
      {"kernels", model.kernels},
      {"tokens", input.tokens.size()},
      {"tokens_scored", result.tokens_scored},
      {"tokens_run", result.tokens_run},
      {"windows", result.windows},
      {"tokens_per_second", result.tokens_per_second},
      {"seconds", seconds},
      {"threads", thread_count()},
      {"gemm", gemm_identity()},
      {"peak_anonymous_bytes", peak},
      {"model_fingerprint", model.checkpoint->fingerprint()},
      {"tokenizer_hash", nullptr},
      {"text_hash", nullptr},  // of one text; `texts` has that of each
      {"tokens_hash", input.tokens_hash},
  };
  if (input.tokenizer) object["tokenizer_hash"] = input.tokenizer->fingerprint();
  if (options.bos) object["bos"] = *options.bos;
  if (input.files.size() == 1 && input.files[0].text_hash) object["text_hash"] = *input.files[0].text_hash;
  if (!arguments.input.use.empty()) object["use"] = arguments.input.use;
  object["texts"] = texts_json(input, parts);
  if (comparison) object["reference"] = comparison_json(arguments.reference.string(), *comparison);
  return object;
}

std::string text_of(const Report& report) {
  const auto& [arguments, model, input, options, result, comparison, parts, seconds, peak] = report;
  std::vector<std::pair<std::string, std::string>> facts = {
      {"model", model_fact(arguments.model, model)},
      {"kernels", kernels_fact(arguments.compute, model)},
      {"protocol", protocol_fact(options)},
      {"perplexity", estimate_text(result.perplexity, result.perplexity_stderr, 4)},
      {"loss", fmt::format("{:.5f} nats per token", result.nll_nats_per_token)},
      {"bits per byte",
       std::isnan(result.bits_per_byte) ? "unknown without a tokenizer" : fmt::format("{:.4f}", result.bits_per_byte)},
      {"scored", fmt::format("{} tokens in {} window{}", with_separators(result.tokens_scored),
                             with_separators(result.windows), result.windows == 1 ? "" : "s")},
      {"speed", fmt::format("{} tokens/s ({}, {} thread{}, {})", human_count(result.tokens_per_second),
                            human_duration(seconds), thread_count(), thread_count() == 1 ? "" : "s", gemm_identity())},
      {"peak memory", fmt::format("{} beside the mapped checkpoint of {}", human_bytes(peak),
                                  human_bytes(model.checkpoint->tensor_bytes()))},
  };
  if (comparison) {
    const auto more = comparison_facts(arguments.reference.string(), *comparison);
    facts.insert(facts.end() - 2, more.begin(), more.end());
  }
  const auto texts = texts_facts(input, arguments.input.use, parts);
  facts.insert(facts.end() - 2, texts.begin(), texts.end());
  return aligned_facts(facts);
}

void run(const PerplexityArguments& arguments) {
  arguments.common.apply();
  const PeakAnonymousMemory memory;
  const auto start = std::chrono::steady_clock::now();
  const quant::LoadedModel model = load_to_compute(arguments.model, arguments.compute);
  warn_of_unexpected(*model.checkpoint);
  eval::PerplexityOptions options = options_of(arguments, model.architecture);
  if (const auto warning = model::warning_of_length(model.architecture, options.context)) warn(*warning);
  const TokenInput input = read_token_input(arguments.input, arguments.model, model.architecture.vocabulary);
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
  bar.finish();
  if (quality.warning) warn(*quality.warning);
  const std::vector<eval::TextPart> parts =
      eval::text_parts(quality, options, input.tokens.size(), model.architecture.max_positions);

  const Report report{
      .arguments = arguments,
      .model = model,
      .input = input,
      .options = options,
      .result = quality.perplexity,
      .comparison = quality.comparison,
      .parts = parts,
      .seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
      .peak_anonymous_bytes = memory.bytes(),
  };
  if (arguments.common.json) {
    print_json(json_of(report));
  } else {
    print(text_of(report));
  }
}

}  // namespace

Command perplexity_command(CLI::App& program) {
  auto arguments = std::make_shared<PerplexityArguments>();
  CLI::App* app = program.add_subcommand("perplexity", "How well a model predicts a text: perplexity, bits per byte");
  add_model(*app, arguments->model);
  add_text_input(*app, arguments->input);
  add_path(*app, "--reference", arguments->reference, "MODEL",
           "Model to compare with, mostly the float one: KL divergence, top-1 agreement, ratio of perplexities");
  app->add_option("--protocol", arguments->protocol, "Windows: sliding, blocks or half (docs/protocols.md)")
      ->type_name("NAME")
      ->capture_default_str();
  add_count(*app, "--context", arguments->context, "Tokens in a window [default: the model's context]", {.low = 2});
  add_count(*app, "--stride", arguments->stride, "Tokens between windows, sliding only [default: half the context]");
  arguments->average_option =
      app->add_option("--average", arguments->average, "Mean over windows or tokens, sliding only")
          ->type_name("NAME")
          ->capture_default_str();
  app->add_option("--attention", arguments->attention, "fused, or decomposed: with all scores in memory")
      ->type_name("NAME")
      ->capture_default_str();
  add_compute(*app, arguments->compute);
  add_common_options(*app, arguments->common);
  app->footer(
      "What a mode of --compute costs in quality, --reference with the model itself tells: it is run as 'reference'.\n"
      "Example:\n"
      "  nibble perplexity datasets/demo/gpt2-demo --text datasets/demo/eval.txt\n"
      "  nibble perplexity build/gpt2-demo-int4 --text datasets/demo/eval.txt --reference datasets/demo/gpt2-demo\n"
      "  nibble perplexity model-Q4_K_M.gguf --text FILE --reference FLOAT_DIR\n"
      "  nibble perplexity MODEL --text ONE --text OTHER --use validation --reference FLOAT_DIR\n"
      "  nibble perplexity MODEL --text wiki.test.raw --hf-join --context 1024 --stride 512 --json");
  return {app, [arguments] { run(*arguments); }};
}

}  // namespace nibble::cli

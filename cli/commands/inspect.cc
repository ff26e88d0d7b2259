#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "cli/arguments/memory_size.h"
#include "cli/arguments/options.h"
#include "cli/arguments/output_path.h"
#include "cli/command.h"
#include "cli/commands/inspect_compress.h"
#include "cli/terminal/human.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress_bar.h"
#include "cli/terminal/table.h"
#include "core/error.h"
#include "core/files/output_file.h"
#include "core/text/json.h"
#include "eval/inspect/inspect_model.h"
#include "eval/inspect/model_graph.h"
#include "export/output_path.h"
#include "model/open/open_model.h"
#include "quant/store/model_weights.h"

namespace nibble::cli {
namespace {

using eval::ModelDescription;
using eval::TensorDescription;

struct InspectArguments {
  CommonOptions common;
  std::filesystem::path model;
  bool compress = false;
  std::string sample = "512K";
  std::filesystem::path graph;
};

nlohmann::ordered_json json_of(const model::Architecture& architecture) {
  const model::BlockSpec& block = architecture.blocks.front();
  nlohmann::ordered_json object = {{"family", architecture.family},
                                   {"vocabulary", architecture.vocabulary},
                                   {"hidden", architecture.hidden},
                                   {"layers", architecture.blocks.size()},
                                   {"heads", block.attention.heads},
                                   {"kv_heads", block.attention.kv_heads},
                                   {"head_dim", block.attention.head_dim},
                                   {"intermediate", architecture.largest_intermediate()},
                                   {"max_positions", architecture.max_positions},
                                   {"tied_head", architecture.head.tied}};
  if (block.attention.rotary) object["rope_theta"] = block.attention.rotary->base;
  if (architecture.has_experts()) {
    const auto mixture = std::find_if(architecture.blocks.begin(), architecture.blocks.end(),
                                      [](const model::BlockSpec& b) { return b.experts.has_value(); });
    object["experts"] = mixture->experts->experts.size();
    object["active_experts"] = mixture->experts->active;
  }
  return object;
}

nlohmann::ordered_json json_of(const TensorDescription& tensor) {
  const eval::ValueStatistics& values = tensor.values;
  return {{"name", tensor.name},
          {"storage", tensor.storage},
          {"shape", tensor.shape},
          {"weights", tensor.weights},
          {"bytes", tensor.bytes},
          {"bits_per_weight", tensor.bits_per_weight},
          {"block_linear", tensor.block_linear},
          {"min", values.min},
          {"max", values.max},
          {"mean", values.mean},
          {"deviation", values.deviation},
          {"outlier_ratio", values.outlier_ratio},
          {"nan_count", values.nan_count},
          {"infinities", values.infinities}};
}

nlohmann::ordered_json json_of(const InspectArguments& arguments, const ModelDescription& model) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const TensorDescription& tensor : model.tensors) tensors.push_back(json_of(tensor));
  nlohmann::ordered_json object = {{"model", arguments.model.string()},
                                   {"architecture", json_of(model.architecture)},
                                   {"method", model.method},
                                   {"parameters", model.parameters},
                                   {"bytes", model.bytes},
                                   {"bits_per_weight", model.bits_per_weight},
                                   {"model_bits_per_weight", model.model_bits_per_weight},
                                   {"recipe", nullptr},
                                   {"tensors", std::move(tensors)}};
  if (!model.recipe.empty()) object["recipe"] = model.recipe;
  return object;
}

std::string text_of(const InspectArguments& arguments, const ModelDescription& model) {
  Table table({{"tensor", Align::kLeft},
               {"storage", Align::kLeft},
               {"shape"},
               {"size"},
               {"bits/weight"},
               {"min"},
               {"max"},
               {"std"},
               {"max/rms"}});
  for (const TensorDescription& tensor : model.tensors) {
    const eval::ValueStatistics& values = tensor.values;
    table.add_row({tensor.name, tensor.storage, fmt::format("{}", fmt::join(tensor.shape, " x ")),
                   human_bytes(tensor.bytes), fmt::format("{:.4f}", tensor.bits_per_weight),
                   fmt::format("{:.4f}", values.min), fmt::format("{:.4f}", values.max),
                   fmt::format("{:.5f}", values.deviation), fmt::format("{:.1f}", values.outlier_ratio)});
  }
  std::string text =
      aligned_facts({{"model", arguments.model.string()},
                     {"architecture", model.summary},
                     {"parameters", fmt::format("{} in {} tensors, {}", with_separators(model.parameters),
                                                model.tensors.size(), human_bytes(model.bytes))},
                     {"method", model.method},
                     {"bits per weight", fmt::format("{:.4f} in the blocks' linear layers, {:.4f} over everything",
                                                     model.bits_per_weight, model.model_bits_per_weight)}}) +
      "\n" + table.text();
  if (!model.recipe.empty()) text += "\nrecipe\n" + model.recipe;
  return text;
}

void write_graph(const InspectArguments& arguments) {
  using Writer = std::string (*)(const eval::ModelGraph&);
  static constexpr std::pair<std::string_view, Writer> kWriters[] = {
      {".dot", eval::graph_dot}, {".svg", eval::graph_svg}, {".json", eval::graph_json}};
  const std::string extension = arguments.graph.extension().string();
  const auto writer =
      std::find_if(std::begin(kWriters), std::end(kWriters), [&](const auto& w) { return w.first == extension; });
  NIBBLE_REQUIRE(writer != std::end(kWriters), InvalidArgument,
                 "--graph: expected a file that ends in .dot, .svg or .json, got '{}'", arguments.graph.string());
  exporting::require_apart(arguments.model, arguments.graph);
  const auto checkpoint = model::open_checkpoint(arguments.model);
  create_parents(arguments.graph);
  const std::string text = writer->second(eval::graph_of(checkpoint, quant::open_quantized_weights(checkpoint)));
  write_file(arguments.graph, text);
  if (arguments.common.json) return print_json({{"graph", arguments.graph.string()}, {"bytes", text.size()}});
  print(fmt::format("{} ({})\n", arguments.graph.string(), human_bytes(text.size())));
}

void run(const InspectArguments& arguments, const CLI::App& app) {
  arguments.common.apply();
  if (!arguments.graph.empty()) {
    refuse_given(app, {"--threads", "--quiet"}, "--graph");
    return write_graph(arguments);
  }
  if (arguments.compress) {
    refuse_given(app, {"--threads"}, "--compress, whose rates are those of one core");
    print_storage_study(arguments.model, parse_memory_size("--sample", arguments.sample), arguments.common);
    return;
  }
  ProgressBar bar = ProgressBar::for_process(arguments.common.quiet);
  const ModelDescription model = eval::describe_model(arguments.model, bar.sink());
  bar.finish();
  for (const TensorDescription& tensor : model.tensors) {
    const auto [nans, infinities] = std::pair(tensor.values.nan_count, tensor.values.infinities);
    if (nans + infinities > 0)
      warn(fmt::format("'{}' holds {} NaN and {} infinite values", tensor.name, nans, infinities));
  }
  if (arguments.common.json) {
    print_json(json_of(arguments, model));
  } else {
    print(text_of(arguments, model));
  }
}

}  // namespace

Command inspect_command(CLI::App& program) {
  auto arguments = std::make_shared<InspectArguments>();
  CLI::App* app = program.add_subcommand("inspect", "Show a checkpoint: architecture, tensors, sizes, statistics");
  add_model(*app, arguments->model);
  auto* compress = app->add_flag("--compress", arguments->compress,
                                 "What compressors make of the stored codes, scales and float weights instead");
  app->add_option("--sample", arguments->sample, "Bytes of each kind of number to compress, at most")
      ->type_name("SIZE")
      ->needs(compress)
      ->capture_default_str();
  add_path(*app, "--graph", arguments->graph, "FILE",
           "Write what the model computes, operation by operation, instead: FILE.dot, FILE.svg or FILE.json")
      ->excludes(compress);
  add_common_options(*app, arguments->common);
  app->footer(
      "Example:\n  nibble inspect datasets/demo/llama-demo --graph build/llama.svg\n"
      "  nibble inspect datasets/demo/gpt2-demo\n"
      "  nibble inspect model-Q4_K_M.gguf\n"
      "  nibble inspect datasets/demo/gpt2-demo --compress");
  return {app, [arguments, app] { run(*arguments, *app); }};
}

}  // namespace nibble::cli

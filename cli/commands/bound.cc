#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "cli/arguments/options.h"
#include "cli/command.h"
#include "cli/terminal/human.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress_bar.h"
#include "cli/terminal/table.h"
#include "core/error.h"
#include "core/text/estimate.h"
#include "core/text/json.h"
#include "eval/bound/bound_study.h"

namespace nibble::cli {
namespace {

struct BoundArguments {
  CommonOptions common;
  std::vector<std::string> methods;
  std::vector<std::size_t> bits;
  eval::LayerModel layer;
  eval::BoundStudyOptions study;
};

// PRESET|FILE[:KEY=VALUE…], taken apart; of a file whose name has colons, the whole is its name.
struct MethodText {
  explicit MethodText(const std::string& text) {
    std::error_code ignored;
    std::size_t end = std::filesystem::exists(text, ignored) ? std::string::npos : text.find(':');
    name = text.substr(0, end);
    while (end != std::string::npos) {
      const std::size_t begin = end + 1;
      end = text.find(':', begin);
      assignments.push_back(text.substr(begin, end - begin));
    }
  }
  bool is_file() const {
    return name.find('/') != std::string::npos || name.ends_with(".yaml") || name.ends_with(".yml") ||
           name.ends_with(".json");
  }
  bool sets_bits() const {
    return std::any_of(assignments.begin(), assignments.end(),
                       [](const std::string& assignment) { return assignment.starts_with("bits="); });
  }
  quant::Recipe recipe() const {
    quant::Recipe made = is_file() ? quant::Recipe::load(name) : quant::Recipe::preset(name);
    for (const std::string& assignment : assignments) made.apply_set(assignment);
    return made;
  }

  std::string name;
  std::vector<std::string> assignments;
};

bool has_widths(const quant::TensorSettings& settings) {
  return settings.stored_as().bits.size() > 1 && (!settings.has_block_palette() || settings.learns_block_palette());
}

quant::Recipe with_bits(quant::Recipe recipe, std::size_t bits) {
  recipe.apply_set("bits", std::to_string(bits));
  recipe.validate();
  const unsigned got = eval::settings_of_layer(recipe).bits;
  NIBBLE_REQUIRE(got == bits, InvalidArgument,
                 "--bits: a rule for layers of this name gives them {} bits; expected none, or leave --bits out", got);
  return recipe;
}

// A method as it is, or at each of the widths: then true. What is wrong with it is said with its name.
bool add_methods(const std::string& text, std::span<const std::size_t> widths, std::vector<eval::Method>& methods) try {
  const MethodText method(text);
  quant::Recipe recipe = method.recipe();
  recipe.validate();
  if (widths.empty() || method.sets_bits() || !has_widths(eval::settings_of_layer(recipe))) {
    methods.push_back({text, std::move(recipe)});
    return false;
  }
  for (const std::size_t width : widths)
    methods.push_back({fmt::format("{}:bits={}", text, width), with_bits(recipe, width)});
  return true;
} catch (const InvalidArgument& error) {
  throw InvalidArgument(fmt::format("method '{}': {}", text, error.what()));
}

std::vector<eval::Method> methods_of(const BoundArguments& arguments) {
  std::vector<std::string> texts = arguments.methods;
  std::vector<std::size_t> widths = arguments.bits;
  if (texts.empty()) {
    texts = {"whole-tensor", "squeezellm", "gptq", "scalar-one-shot", "windowed-one-shot", "best-one-shot"};
    if (widths.empty()) widths = {4, 3, 2};
  }
  std::vector<eval::Method> methods;
  bool with_widths = false;
  for (const std::string& text : texts) with_widths = add_methods(text, widths, methods) || with_widths;
  NIBBLE_REQUIRE(arguments.bits.empty() || with_widths, InvalidArgument,
                 "--bits changes none of these methods: each has a width of its own, or sets bits");
  for (std::size_t m = 1; m < methods.size(); ++m)
    for (std::size_t earlier = 0; earlier < m; ++earlier)
      NIBBLE_REQUIRE(methods[m].name != methods[earlier].name, InvalidArgument, "method '{}' is there twice",
                     methods[m].name);
  return methods;
}

nlohmann::ordered_json json_of(const eval::OverLayers& figure) {
  return {{"mean", figure.mean}, {"standard_error", figure.standard_error}};
}

nlohmann::ordered_json json_of(const BoundArguments& arguments, const std::vector<eval::Method>& methods,
                               const std::vector<eval::MethodBound>& results) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (std::size_t m = 0; m < results.size(); ++m)
    list.push_back({{"name", results[m].name},
                    {"bits_per_weight", results[m].bits_per_weight},
                    {"output_error", json_of(results[m].error)},
                    {"bound", results[m].bound},
                    {"decibels_above", json_of(results[m].decibels)},
                    {"bits_above", json_of(results[m].bits)},
                    {"seconds", results[m].seconds},
                    {"recipe", methods[m].recipe.canonical_json()}});
  return {{"rows", arguments.layer.rows},
          {"columns", arguments.layer.columns},
          {"tail", arguments.layer.tail},
          {"input_power", arguments.layer.input_power},
          {"output_power", arguments.layer.output_power},
          {"spread", arguments.layer.spread},
          {"layers", arguments.study.layers},
          {"seed", arguments.study.seed},
          {"methods", std::move(list)}};
}

std::string estimate(const eval::OverLayers& figure, int digits) {
  return estimate_text(figure.mean, figure.standard_error, digits);
}

std::string text_of(const BoundArguments& arguments, const std::vector<eval::MethodBound>& results) {
  const eval::LayerModel& layer = arguments.layer;
  const std::string weights =
      layer.tail == 0 ? "normal weights" : fmt::format("weights of Student's t with {} degrees of freedom", layer.tail);
  Table table({{"method", Align::kLeft},
               {"bits/weight"},
               {"output error"},
               {"bound"},
               {"dB above"},
               {"bits above"},
               {"time, all"}});
  for (const eval::MethodBound& result : results)
    table.add_row({result.name, fmt::format("{:.4f}", result.bits_per_weight), fmt::format("{:.3e}", result.error.mean),
                   fmt::format("{:.3e}", result.bound), estimate(result.decibels, 2), estimate(result.bits, 3),
                   human_duration(result.seconds)});
  return fmt::format(
             "{} layer{} of {} by {}: {}, input power {}, output power {}, spread {}\n"
             "Output error: tr(G Δ H Δᵀ) / tr(G W H Wᵀ). Bound: the least that so many bits allow{}; bits above:\n"
             "what a method takes beyond the bits with which its error would be possible.\n\n",
             arguments.study.layers, arguments.study.layers == 1 ? "" : "s", layer.rows, layer.columns, weights,
             layer.input_power, layer.output_power, layer.spread, layer.tail == 0 ? "" : " (a lower bound of it)") +
         table.text();
}

void run(BoundArguments& arguments) {
  arguments.common.apply();
  const std::vector<eval::Method> methods = methods_of(arguments);
  ProgressBar bar = ProgressBar::for_process(arguments.common.quiet);
  arguments.study.progress = bar.sink();
  const std::vector<eval::MethodBound> results = eval::study_bound(arguments.layer, methods, arguments.study);
  bar.finish();
  if (arguments.common.json) {
    print_json(json_of(arguments, methods, results));
  } else {
    print(text_of(arguments, results));
  }
}

}  // namespace

Command bound_command(CLI::App& program) {
  constexpr std::uint64_t kLargest = 4096;  // whose covariances take a minute to draw
  auto arguments = std::make_shared<BoundArguments>();
  CLI::App* app = program.add_subcommand(
      "bound", "Methods on synthetic layers, beside the least error that their bits allow; no model needed");
  app->add_option(
         "METHOD", arguments->methods,
         "Presets or recipe files (their defaults, and rules for a layer called 'layer'), keys set behind a colon: "
         "scalar-one-shot:output_hessian=false [default: whole-tensor squeezellm gptq scalar-one-shot "
         "windowed-one-shot best-one-shot]")
      ->type_name("PRESET|FILE[:KEY=VALUE…]");
  add_count_list(
      *app, "--bits", arguments->bits,
      "Each method at these widths, but for those that have no choice or set bits themselves [default: 4,3,2 where no "
      "METHOD is given, else as methods say]",
      {.high = 8});
  add_count(*app, "--rows", arguments->layer.rows, "Outputs of a layer [default: 512]", {.high = kLargest});
  add_count(*app, "--columns", arguments->layer.columns, "Inputs of a layer [default: 512]", {.high = kLargest});
  add_count(*app, "--tail", arguments->layer.tail,
            "Weights of Student's t with so many degrees of freedom, 3 or more; 0: normal ones [default: 5]",
            {.low = 0, .high = 1000});
  add_number(*app, "--input-power", arguments->layer.input_power,
             "Eigenvalue i of the inputs' covariance falls like i to the minus this [default: 1]", 0.0, 4.0);
  add_number(*app, "--output-power", arguments->layer.output_power,
             "The same of the gradients at the outputs [default: 0.5]", 0.0, 4.0);
  add_number(
      *app, "--spread", arguments->layer.spread,
      "How unlike the sizes of inputs, and of outputs, are: standard deviation of their logarithm [default: 0.2]", 0.0,
      2.0);
  add_count(*app, "--layers", arguments->study.layers, "Layers drawn, over which figures are means [default: 3]",
            {.high = 1000});
  add_count(*app, "--seed", arguments->study.seed, "Of the first layer [default: 0]", {.low = 0});
  add_common_options(*app, arguments->common);
  app->footer(
      "docs/results/bound.md says what the bound is.\n"
      "Example:\n"
      "  nibble bound --bits 2\n"
      "  nibble bound scalar-one-shot scalar-one-shot:output_hessian=false recipe.yaml --bits 3,2 --tail 0 --layers 5");
  return {app, [arguments] { run(*arguments); }};
}

}  // namespace nibble::cli

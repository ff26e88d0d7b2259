#include "eval/sweep/sweep_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>

#include "core/error.h"
#include "core/files/file_identity.h"
#include "core/files/output_file.h"
#include "core/text/suggest.h"
#include "datasets/document_reader.h"
#include "eval/quality/text_quality.h"
#include "eval/quality/text_use.h"
#include "eval/sweep/recipe_grid.h"
#include "eval/sweep/speed_section.h"
#include "eval/sweep/yaml_section.h"

namespace nibble::eval {
namespace {

constexpr std::uint64_t kMostTokens = std::uint64_t{1} << 40, kMostSamples = std::uint64_t{1} << 30;

const std::vector<YamlNode>& items_of(const YamlSection& file, const YamlNode& root, std::string_view key) {
  const YamlNode* node = file.find(key);
  if (node == nullptr) file.fail(root, fmt::format("'{}' is missing: a list", key));
  if (node->kind != YamlNode::Kind::kSequence || node->items.empty())
    file.fail(*node, fmt::format("{}: expected a list", key));
  return node->items;
}

SweepModel parse_model(const YamlNode& node, std::string_view what) {
  SweepModel model;
  if (node.kind == YamlNode::Kind::kScalar) {
    model.path = node.text;
  } else {
    constexpr std::array<std::string_view, 2> kKeys{"path", "name"};
    const YamlSection section(node, what, "models", kKeys);
    model.path = section.text("path");
    model.name = section.text("name");
  }
  if (model.path.empty()) fail_at(what, node, "models: expected the path of a checkpoint");
  if (model.name.empty()) {
    const auto normal = (model.path / "").lexically_normal().parent_path();
    model.name = normal.filename().string();
  }
  return model;
}

// The whole numbers of a key that has one or a list, each once.
std::vector<std::uint64_t> numbers(const YamlSection& section, const char* key, std::uint64_t least,
                                   std::uint64_t most) {
  std::vector<std::uint64_t> found;
  for (const std::string& text : section.texts(key)) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < least || number > most ||
        std::find(found.begin(), found.end(), number) != found.end())
      section.fail(*section.find(key), fmt::format("{}: expected whole numbers from {} to {}, each once, got '{}'", key,
                                                   least, most, text));
    found.push_back(number);
  }
  return found;
}

void require_each_once(const YamlSection& section, const YamlNode& node,
                       const std::vector<std::filesystem::path>& files) {
  std::set<std::string> seen;
  for (const std::filesystem::path& file : files)
    if (!seen.insert(file_identity(file)).second)
      section.fail(node, fmt::format("'{}' is listed twice", file.string()));
}

SweepCalibration parse_calibration(const YamlNode& node, std::string_view what) {
  constexpr std::array<std::string_view, 12> kKeys{"text",   "tokens", "field",  "samples", "length", "seed",
                                                   "fisher", "labels", "centre", "guide",   "bos",    "collect"};
  const YamlSection section(node, what, "calibration", kKeys);
  SweepCalibration calibration;
  for (const std::string& file : section.texts("text")) calibration.text.emplace_back(file);
  calibration.tokens = section.text("tokens");
  if (calibration.text.empty() == calibration.tokens.empty()) section.fail(node, "expected either text or tokens");
  require_each_once(section, node, calibration.text);
  calibration.field = section.text("field", datasets::kDefaultField);
  if (section.has("samples")) calibration.samples = numbers(section, "samples", 1, kMostSamples);
  if (section.has("seed")) calibration.seeds = numbers(section, "seed", 0, ~std::uint64_t{0});
  if (calibration.draws() > kMaxCells) section.fail(node, fmt::format("more than {} draws", kMaxCells));
  calibration.length = section.count("length", 2, 1 << 24, 0);
  calibration.flavour = section.parsed("fisher", "sequence", calib::parse_fisher_flavour);
  calibration.labels = section.parsed("labels", "data", calib::parse_labels);
  if (calibration.text.empty()) {
    const std::string_view hint = "tokens are taken as they are; choose text, or leave it out";
    if (section.has("field")) section.fail(*section.find("field"), fmt::format("field: {}", hint));
    if (section.has("seed") && calibration.labels != calib::Labels::kSampled)  // which it draws
      section.fail(*section.find("seed"), fmt::format("seed: {}", hint));
  }
  if (section.has("field") && std::ranges::none_of(calibration.text, datasets::holds_json_lines))
    section.fail(*section.find("field"), "field: it belongs to JSON lines; other texts have none");
  calibration.centre_own = section.parsed("centre", "none", [](const std::string& text) {
    NIBBLE_REQUIRE(text == "none" || text == "own", InvalidArgument, "centre: expected none or own, got '{}'", text);
    return text == "own";
  });
  calibration.bos = section.flag("bos");
  if (section.has("guide")) calibration.guide = section.parsed("guide", "whitened", calib::parse_guide);
  if (section.has("collect")) {
    std::string list;
    for (const std::string& name : section.texts("collect")) list += (list.empty() ? "" : ",") + name;
    try {
      calibration.collect = list == "none" ? calib::StatisticSet{} : calib::parse_statistic_set(list);
    } catch (const InvalidArgument& error) {
      section.fail(*section.find("collect"), error.what());
    }
  }
  return calibration;
}

SweepEvaluation parse_evaluation(const YamlNode& node, std::string_view what) {
  constexpr std::array<std::string_view, 13> kKeys{"name",       "text",       "tokens",  "use",    "hf_join",
                                                   "max_tokens", "protocol",   "context", "stride", "average",
                                                   "bos",        "divergence", "speed"};
  const YamlSection section(node, what, "evaluations", kKeys);
  SweepEvaluation evaluation;
  if (const YamlNode* speed = section.find("speed")) {
    for (const auto& [key, value] : node.entries)
      if (key != "speed" && key != "name") section.fail(value, fmt::format("{} has no meaning beside speed", key));
    evaluation.speed = parse_speed(*speed, what);
    evaluation.name = section.text("name", "speed");
    return evaluation;
  }
  if (section.has("text"))
    for (const std::string& file : section.texts("text")) evaluation.text.emplace_back(file);
  if (section.has("tokens"))
    for (const std::string& file : section.texts("tokens")) evaluation.tokens.emplace_back(file);
  if (evaluation.text.empty() == evaluation.tokens.empty())
    section.fail(node, "expected text, tokens or speed, one of them");
  require_each_once(section, node, evaluation.text.empty() ? evaluation.tokens : evaluation.text);
  evaluation.hf_join = section.flag("hf_join");
  if (evaluation.hf_join && evaluation.text.empty()) section.fail(node, "hf_join joins rows of text, not tokens");
  evaluation.max_tokens = section.count("max_tokens", 2, kMostTokens, 0);
  evaluation.protocol = section.parsed("protocol", "sliding", datasets::protocol_from_name);
  evaluation.context = section.count("context", 2, kMostTokens, 0);
  evaluation.stride = section.count("stride", 1, kMostTokens, 0);
  if (evaluation.protocol != datasets::Protocol::kSliding)
    for (const char* key : {"stride", "average"})
      if (section.has(key)) section.fail(*section.find(key), fmt::format("{} belongs to protocol sliding", key));
  evaluation.average = section.parsed("average", "windows", [](const std::string& text) {
    NIBBLE_REQUIRE(text == "windows" || text == "tokens", InvalidArgument,
                   "average: expected windows or tokens, got '{}'", text);
    return text == "tokens" ? Average::kTokens : Average::kWindows;
  });
  evaluation.bos = section.flag("bos");
  if (evaluation.bos && evaluation.protocol == datasets::Protocol::kHalf)
    section.fail(*section.find("bos"), kBosOfHalf);
  evaluation.divergence = section.flag("divergence");
  evaluation.use = section.parsed("use", "", [](const std::string& text) { return checked_text_use("use", text); });
  const std::filesystem::path& file = (evaluation.text.empty() ? evaluation.tokens : evaluation.text).front();
  evaluation.name =
      section.text("name", fmt::format("{} {}{}", file.stem().string(), datasets::protocol_name(evaluation.protocol),
                                       evaluation.bos ? " behind the BOS" : ""));
  return evaluation;
}

template <class Named>
void require_unique_names(const std::vector<Named>& list, std::string_view what, std::string_view section) {
  std::set<std::string> names;
  for (const Named& item : list)
    NIBBLE_REQUIRE(names.insert(item.name).second, InvalidArgument, "{}: {}: two are called '{}'; give them a `name`",
                   what, section, item.name);
}

// A text that settings were chosen on is no test; calibrated on, it is neither.
void require_one_use_of_a_text(const std::vector<SweepEvaluation>& evaluations,
                               const std::optional<SweepCalibration>& calibration, std::string_view what) {
  std::map<std::string, const SweepEvaluation*> seen;
  SweepEvaluation calibrated;
  if (calibration) {
    calibrated.name = calibrated.use = "calibration";
    for (const std::filesystem::path& file : calibration->text) seen.emplace(file_identity(file), &calibrated);
    if (!calibration->tokens.empty()) seen.emplace(file_identity(calibration->tokens), &calibrated);
  }
  for (const SweepEvaluation& evaluation : evaluations) {
    if (evaluation.use.empty()) continue;
    for (const auto* files : {&evaluation.text, &evaluation.tokens})
      for (const std::filesystem::path& file : *files) {
        const SweepEvaluation& first = *seen.emplace(file_identity(file), &evaluation).first->second;
        NIBBLE_REQUIRE(first.use == evaluation.use, InvalidArgument,
                       "{}: evaluations: '{}' is {} in '{}' and {} in '{}': a text has one use", what, file.string(),
                       first.use, first.name, evaluation.use, evaluation.name);
      }
  }
}

template <class Named>
std::vector<std::string_view> names_of(const std::vector<Named>& list) {
  std::vector<std::string_view> names;
  for (const Named& item : list) names.push_back(item.name);
  return names;
}

// A name that nothing has would leave nothing out, silently.
void check_excluded(const YamlNode& exclude, const SweepSpec& spec, const std::vector<std::string>& left_out,
                    std::string_view what) {
  std::vector<std::string_view> recipes = names_of(spec.recipes);
  recipes.insert(recipes.end(), left_out.begin(), left_out.end());
  const auto check = [&](const YamlEntry& entry, std::string_view expected, std::span<const std::string_view> names) {
    for (const std::string& name : scalar_texts(what, entry.value, "exclude: " + entry.key))
      if (std::find(names.begin(), names.end(), name) == names.end())
        fail_at(
            what, entry.value,
            fmt::format("exclude: {}: expected {}, got '{}'{}", entry.key, expected, name, did_you_mean(name, names)));
  };
  for (const YamlNode& item : exclude.items) {
    for (const YamlEntry& entry : item.entries) {
      if (entry.key == "model") check(entry, "the name of a model", names_of(spec.models));
      if (entry.key == "evaluation") check(entry, "the name of an evaluation", names_of(spec.evaluations));
      if (entry.key == "recipe") check(entry, "the name of a recipe (without windows or seed of the text)", recipes);
    }
  }
}

}  // namespace

SweepSpec parse_sweep(std::string_view yaml, std::string_view what) {
  const YamlNode root = parse_yaml(yaml, what);
  constexpr std::array<std::string_view, 7> kKeys{"models", "calibration", "evaluations", "defaults",
                                                  "grid",   "list",        "exclude"};
  const YamlSection file(root, what, "sweep", kKeys);
  SweepSpec spec;
  for (const YamlNode& node : items_of(file, root, "models")) spec.models.push_back(parse_model(node, what));
  if (const YamlNode* node = file.find("calibration")) spec.calibration = parse_calibration(*node, what);
  for (const YamlNode& node : items_of(file, root, "evaluations"))
    spec.evaluations.push_back(parse_evaluation(node, what));
  std::vector<Exclusion> exclusions;
  if (const YamlNode* node = file.find("exclude")) {
    if (node->kind != YamlNode::Kind::kSequence) fail_at(what, *node, "exclude: expected a list");
    for (const YamlNode& item : node->items) exclusions.emplace_back(item, what);
  }
  ExpandedRecipes expanded =
      expand_recipes({file.find("defaults"), file.find("grid"), file.find("list")}, exclusions, what);
  spec.recipes = std::move(expanded.recipes);
  require_unique_names(spec.models, what, "models");
  require_unique_names(spec.evaluations, what, "evaluations");
  require_one_use_of_a_text(spec.evaluations, spec.calibration, what);
  require_unique_names(spec.recipes, what, "grid and list");

  for (std::size_t m = 0; m < spec.models.size(); ++m) {
    for (std::size_t r = 0; r < spec.recipes.size(); ++r) {
      for (std::size_t e = 0; e < spec.evaluations.size(); ++e) {
        const bool excluded = std::any_of(exclusions.begin(), exclusions.end(), [&](const Exclusion& exclusion) {
          return exclusion.covers(spec.models[m], spec.recipes[r], spec.evaluations[e]);
        });
        // The float model is calibrated on nothing.
        const std::size_t draws = spec.calibration && spec.recipes[r].recipe ? spec.calibration->draws() : 1;
        for (std::size_t d = 0; d < draws && !excluded; ++d) spec.cells.push_back({m, r, e, d});
        NIBBLE_REQUIRE(spec.cells.size() <= kMaxCells, InvalidArgument, "{}: more than {} cells", what, kMaxCells);
      }
    }
  }
  NIBBLE_REQUIRE(!spec.cells.empty() || file.find("exclude") == nullptr, InvalidArgument,
                 "{}: there are no cells: 'exclude' leaves out all there would be", what);
  NIBBLE_REQUIRE(!spec.cells.empty(), InvalidArgument,
                 "{}: there are no cells: give settings under 'grid' or 'list' ('list: [float]' for the float model)",
                 what);
  if (const YamlNode* node = file.find("exclude")) check_excluded(*node, spec, expanded.left_out, what);
  return spec;
}

SweepSpec load_sweep(const std::filesystem::path& file) {
  SweepSpec spec = parse_sweep(read_text_file(file, kMaxYamlBytes), fmt::format("sweep '{}'", file.string()));
  std::error_code ignored;
  if (std::filesystem::is_regular_file(file, ignored)) spec.file = std::filesystem::canonical(file, ignored);
  return spec;
}

}  // namespace nibble::eval

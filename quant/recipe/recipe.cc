#include "quant/recipe/recipe.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "core/error.h"
#include "core/files/output_file.h"
#include "core/text/choice.h"
#include "core/text/json.h"
#include "core/text/suggest.h"
#include "core/text/yaml.h"
#include "quant/recipe/name_pattern.h"
#include "quant/recipe/recipe_keys.h"

namespace nibble::quant {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxRules = 1000;

// The keys given in one section, with their values as text.
using Section = std::vector<std::pair<const RecipeKey*, std::string>>;

struct Rule {
  NamePattern match;
  Section section;
};

// The value given for `key`, or null.
const std::string* given_value(const Section& section, std::string_view key) {
  const auto found = std::find_if(section.begin(), section.end(), [&](const auto& g) { return g.first->name == key; });
  return found == section.end() ? nullptr : &found->second;
}

void apply(const Section& section, TensorSettings& settings) {
  for (const auto& [key, value] : section) key->assign(settings, value);
}

// `own` on top of `inherited` (null for `defaults`). A key of `own` that means nothing there is an error; an inherited
// one goes back to its default.
TensorSettings resolve(const Section* inherited, const Section& own, std::string_view where) {
  TensorSettings settings;
  if (inherited != nullptr) apply(*inherited, settings);
  const TensorSettings before = settings;
  apply(own, settings);
  // What a group is depends on these two: a size given for another kind of group says nothing here.
  const bool other_groups = settings.format != before.format || settings.granularity != before.granularity;
  if (other_groups && !given_value(own, "group_size")) settings.group_size.reset();
  for (const RecipeKey& key : recipe_keys()) {
    if (key.applies(settings) || key.is_default(settings)) continue;
    const std::string* value = given_value(own, key.name);
    NIBBLE_REQUIRE(value == nullptr, InvalidArgument, "{}: {}: {} means nothing here; it goes with {}", where, key.name,
                   *value, key.goes_with);
    key.reset(settings);
  }
  try {
    check_combination(settings);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("{}: {}", where, error.what()));
  }
  return settings;
}

void expect(const YamlNode& node, YamlNode::Kind kind, std::string_view where, std::string_view expected) {
  NIBBLE_REQUIRE(node.kind == kind, InvalidArgument, "{}: expected {}", where, expected);
}

// Runs `action` with "where, line n: " in front of what it complains about.
template <class Action>
void at(std::string_view where, int line, const Action& action) {
  try {
    action();
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("{}, line {}: {}", where, line, error.what()));
  }
}

void parse_entry(const std::string& name, const YamlNode& value, std::string_view where, Section& section) {
  at(where, value.line, [&] {
    const RecipeKey& key = find_recipe_key(name);
    NIBBLE_REQUIRE(value.kind == YamlNode::Kind::kScalar, InvalidArgument, "{}: expected a single value", name);
    TensorSettings scratch;
    key.assign(scratch, value.text);
    section.emplace_back(&key, value.text);
  });
}

Rule parse_rule(const YamlNode& node, const std::string& where) {
  expect(node, YamlNode::Kind::kMapping, where, "a rule such as {match: \"mlp\", bits: 3}");
  const auto match =
      std::find_if(node.entries.begin(), node.entries.end(), [](const auto& entry) { return entry.key == "match"; });
  NIBBLE_REQUIRE(match != node.entries.end() && match->value.kind == YamlNode::Kind::kScalar, InvalidArgument,
                 "{}, line {}: expected a pattern, match: \"…\"", where, node.line);
  std::optional<NamePattern> pattern;
  at(where, match->value.line, [&] { pattern.emplace(match->value.text); });
  Rule rule{std::move(*pattern), {}};
  for (const auto& [name, value] : node.entries)
    if (name != "match") parse_entry(name, value, where, rule.section);
  return rule;
}

// Before keys of these sections, where they are set one by one.
constexpr std::string_view kBudget = "budget.", kTuning = "tuning.";

constexpr std::array<std::string_view, 6> kBudgetKeys{"bits_per_weight", "bits",     "granularity",
                                                      "window_bits",     "estimate", "probe_windows"};

bool is_budget_list(std::string_view name) { return name == "bits" || name == "granularity" || name == "window_bits"; }

// What a key of a section is given: one text, or several where it takes a list.
std::vector<std::string> values_of(std::string_view name, const YamlNode& value, bool list) {
  const YamlNode::Kind kind = list ? YamlNode::Kind::kSequence : YamlNode::Kind::kScalar;
  NIBBLE_REQUIRE(value.kind == kind && (!list || !value.items.empty()), InvalidArgument, "{}: expected a {}", name,
                 list ? "list" : "single value");
  if (!list) return {value.text};
  std::vector<std::string> values;
  for (const YamlNode& item : value.items) values.push_back(item.text);
  return values;
}

void set_budget(Budget& budget, std::string_view name, const std::vector<std::string>& values) {
  const auto each = [&](auto& list, const auto& parse) {
    list.clear();
    std::set<std::string> seen;
    for (const std::string& text : values) {
      NIBBLE_REQUIRE(seen.insert(text).second, InvalidArgument, "'{}' is listed twice", text);
      list.push_back(parse(text));
    }
  };
  if (name == "bits_per_weight")
    budget.bits_per_weight = parse_number(name, values[0], 1.0, 16.0);
  else if (name == "bits")
    each(budget.bits, parse_bits);
  else if (name == "granularity")
    each(budget.granularity, parse_granularity);
  else if (name == "window_bits")
    each(budget.window_bits, parse_window_bits);
  else if (name == "estimate")
    budget.estimate = parse_loss_estimate(values[0]);
  else if (name == "probe_windows")
    budget.probe_windows = parse_count(name, values[0], 1'000'000);
  else
    throw InvalidArgument(fmt::format("unknown key '{}'{}", name, did_you_mean(name, kBudgetKeys)));
}

Budget parse_budget(const YamlNode& node, const std::string& where) {
  expect(node, YamlNode::Kind::kMapping, where, "{bits_per_weight: …, bits: […], granularity: […]}");
  Budget budget;
  for (const auto& [name, value] : node.entries)
    at(where, value.line,
       [&, &name = name, &value = value] { set_budget(budget, name, values_of(name, value, is_budget_list(name))); });
  NIBBLE_REQUIRE(budget.bits_per_weight > 0.0, InvalidArgument, "{}, line {}: bits_per_weight is missing", where,
                 node.line);
  return budget;
}

// The parts of "a,b,c".
std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

constexpr std::string_view kTrainKey = "train";
constexpr std::array<std::string_view, 8> kTuningKeys{"epochs",      "learning_rate", "batch_windows", "loss",
                                                      "code_travel", "windows",       "held_out",      kTrainKey};
constexpr std::array<Choice<TuningLoss>, 2> kTuningLosses{
    {{"kl", TuningLoss::kKl}, {"next-token", TuningLoss::kNextToken}}};
constexpr std::array<Choice<bool Tuning::*>, 4> kTrained{{{"palettes", &Tuning::palettes},
                                                          {"scales", &Tuning::scales},
                                                          {"biases", &Tuning::biases},
                                                          {"codes", &Tuning::codes}}};

void set_trained(Tuning& tuning, const std::vector<std::string>& values) {
  const auto names = names_of(kTrained);
  tuning.palettes = tuning.scales = tuning.biases = tuning.codes = false;
  for (const std::string& value : values) {
    const auto found = find_choice(value, kTrained);
    NIBBLE_REQUIRE(found, InvalidArgument, "train: expected {}, got '{}'{}", fmt::join(names, ", "), value,
                   did_you_mean(value, names));
    bool& named = tuning.**found;
    NIBBLE_REQUIRE(!named, InvalidArgument, "train: '{}' is listed twice", value);
    named = true;
  }
}

void set_tuning(Tuning& tuning, std::string_view name, const std::vector<std::string>& values) {
  const std::string& value = values[0];
  if (name == kTrainKey) {
    set_trained(tuning, values);
  } else if (name == "epochs") {
    tuning.epochs = parse_count(name, value, 1000);
  } else if (name == "learning_rate") {
    tuning.learning_rate = parse_number(name, value, 0.0, 1.0);
  } else if (name == "code_travel") {
    tuning.code_travel = parse_number(name, value, 0.0, 16.0);
  } else if (name == "batch_windows") {
    tuning.batch_windows = parse_count(name, value, 1'000'000);
    NIBBLE_REQUIRE(tuning.batch_windows > 0, InvalidArgument, "batch_windows: expected at least 1");
  } else if (name == "windows") {
    tuning.windows = parse_count(name, value, 1'000'000);
  } else if (name == "held_out") {
    tuning.held_out = parse_count(name, value, 1'000'000);
  } else if (name == "loss") {
    const auto found = find_choice(value, kTuningLosses);
    const auto names = names_of(kTuningLosses);
    NIBBLE_REQUIRE(found, InvalidArgument, "loss: expected {}, got '{}'{}", fmt::join(names, ", "), value,
                   did_you_mean(value, names));
    tuning.loss = *found;
  } else {
    throw InvalidArgument(fmt::format("unknown key '{}'{}", name, did_you_mean(name, kTuningKeys)));
  }
}

Tuning parse_tuning(const YamlNode& node, const std::string& where) {
  expect(node, YamlNode::Kind::kMapping, where, "{epochs: …, learning_rate: …, loss: …, train: […]}");
  Tuning tuning;
  for (const auto& [name, value] : node.entries)
    at(where, value.line,
       [&, &name = name, &value = value] { set_tuning(tuning, name, values_of(name, value, name == kTrainKey)); });
  return tuning;
}

Json tuning_section(const Tuning& tuning) {
  Json json{{"epochs", tuning.epochs},
            {"learning_rate", tuning.learning_rate},
            {"batch_windows", tuning.batch_windows},
            {"loss", name_of(tuning.loss, kTuningLosses)},
            {"train", Json::array()}};
  for (const auto& [name, trained] : kTrained)
    if (tuning.*trained) json["train"].push_back(name);
  if (tuning.codes) json["code_travel"] = tuning.code_travel;
  if (tuning.windows > 0) json["windows"] = tuning.windows;
  if (tuning.held_out > 0) json["held_out"] = tuning.held_out;
  return json;
}

// The keys of `shown` that are printed under `settings`; of all keys if `shown` is null.
Json section_json(const TensorSettings& settings, const Section* shown) {
  Json json = Json::object();
  for (const RecipeKey& key : recipe_keys())
    if (key.printed(settings) && (shown == nullptr ? key.printed_by_default || !key.is_default(settings)
                                                   : given_value(*shown, key.name) != nullptr))
      json[std::string(key.name)] = key.print(settings);
  return json;
}

// One entry of canonical YAML. Words stay bare; JSON's quoted strings, numbers, booleans and lists are YAML as they
// are.
void append_entry(std::string& text, std::string_view indent, const std::string& name, const Json& value) {
  const bool word = value.is_string() && name != "match";
  text += fmt::format("{}{}: {}\n", indent, name, word ? value.get_ref<const std::string&>() : value.dump());
}

}  // namespace

struct Recipe::State {
  std::string what;
  Section defaults;
  std::vector<Rule> rules;
  std::optional<Budget> budget;
  std::optional<Tuning> tuning;

  std::string defaults_place() const { return what + ", defaults"; }
  std::string rule_place(std::size_t index) const {
    return fmt::format("{}, rule {} of layers (match: \"{}\")", what, index + 1, rules[index].match.text());
  }
  TensorSettings resolve_defaults() const { return resolve(nullptr, defaults, defaults_place()); }
  TensorSettings resolve_rule(std::size_t index) const {
    return resolve(&defaults, rules[index].section, rule_place(index));
  }
};

Recipe::Recipe() : Recipe(preset("palette")) {}
Recipe::~Recipe() = default;
Recipe::Recipe(const Recipe& other) : state_(std::make_unique<State>(*other.state_)) {}
Recipe& Recipe::operator=(const Recipe& other) { return *this = Recipe(other); }
Recipe::Recipe(Recipe&&) noexcept = default;
Recipe& Recipe::operator=(Recipe&&) noexcept = default;
Recipe::Recipe(std::unique_ptr<State> state) : state_(std::move(state)) {}

Recipe Recipe::parse(std::string_view yaml, std::string_view what) {
  const YamlNode root = parse_yaml(yaml, what);
  auto state = std::make_unique<State>();
  state->what = what;
  expect(root, YamlNode::Kind::kMapping, what, "sections: defaults, layers, budget, tuning");
  constexpr std::array<std::string_view, 4> sections{"defaults", "layers", "budget", "tuning"};
  for (const auto& [name, node] : root.entries) {
    const std::string where = fmt::format("{}, {}", what, name);
    if (name == "defaults") {
      expect(node, YamlNode::Kind::kMapping, where, "keys and values");
      for (const auto& [key, value] : node.entries) parse_entry(key, value, where, state->defaults);
    } else if (name == "layers") {
      expect(node, YamlNode::Kind::kSequence, where, "a list of rules");
      NIBBLE_REQUIRE(node.items.size() <= kMaxRules, InvalidArgument, "{}: expected at most {} rules, got {}", where,
                     kMaxRules, node.items.size());
      for (const YamlNode& item : node.items)
        state->rules.push_back(parse_rule(item, fmt::format("{}, rule {}", where, state->rules.size() + 1)));
    } else if (name == "budget") {
      state->budget = parse_budget(node, where);
    } else if (name == "tuning") {
      state->tuning = parse_tuning(node, where);
    } else {
      throw InvalidArgument(
          fmt::format("{}, line {}: unknown section '{}'; expected defaults, layers, budget or tuning{}", what,
                      node.line, name, did_you_mean(name, sections)));
    }
  }
  Recipe recipe(std::move(state));
  recipe.validate();
  return recipe;
}

Recipe Recipe::load(const std::filesystem::path& file) {
  return parse(read_text_file(file, kMaxYamlBytes), fmt::format("recipe '{}'", file.string()));
}

void Recipe::apply_set(std::string_view key, std::string_view value) {
  const auto values = [&] { return takes_list(key) ? split_list(value) : std::vector{std::string(value)}; };
  if (key.starts_with(kTuning)) {
    Tuning tuning = state_->tuning.value_or(Tuning{});
    set_tuning(tuning, key.substr(kTuning.size()), values());
    state_->tuning = tuning;
    return;
  }
  if (key.starts_with(kBudget)) {
    Budget budget = state_->budget.value_or(Budget{});
    set_budget(budget, key.substr(kBudget.size()), values());
    state_->budget = budget;
    return;
  }
  const RecipeKey& known = find_recipe_key(key);
  TensorSettings scratch;
  known.assign(scratch, value);
  auto& given = state_->defaults;
  std::erase_if(given, [&](const auto& entry) { return entry.first == &known; });
  given.emplace_back(&known, value);
}

bool Recipe::takes_list(std::string_view key) {
  if (key.starts_with(kTuning)) return key.substr(kTuning.size()) == kTrainKey;
  return key.starts_with(kBudget) && is_budget_list(key.substr(kBudget.size()));
}

std::span<const std::string_view> Recipe::section_keys() {
  static const auto names = [] {
    std::vector<std::string> all;
    for (const std::string_view key : kBudgetKeys) all.push_back(fmt::format("{}{}", kBudget, key));
    for (const std::string_view key : kTuningKeys) all.push_back(fmt::format("{}{}", kTuning, key));
    return all;
  }();
  static const std::vector<std::string_view> keys(names.begin(), names.end());
  return keys;
}

void Recipe::apply_set(std::string_view assignment) {
  const auto equals = assignment.find('=');
  NIBBLE_REQUIRE(equals != std::string_view::npos, InvalidArgument, "expected key=value, got '{}'", assignment);
  apply_set(assignment.substr(0, equals), assignment.substr(equals + 1));
}

void Recipe::validate() const {
  NIBBLE_REQUIRE(!state_->budget || state_->budget->bits_per_weight > 0.0, InvalidArgument,
                 "budget: bits_per_weight is missing; say --set budget.bits_per_weight=3.6");
  NIBBLE_REQUIRE(!state_->tuning || state_->tuning->codes || state_->tuning->code_travel == Tuning().code_travel,
                 InvalidArgument, "tuning: code_travel changes nothing where `train` does not name codes");
  state_->resolve_defaults();
  for (std::size_t i = 0; i < state_->rules.size(); ++i) state_->resolve_rule(i);
}

std::optional<std::size_t> Recipe::matching_rule(std::string_view name) const {
  for (std::size_t i = 0; i < state_->rules.size(); ++i)
    if (state_->rules[i].match.found_in(name)) return i;
  return std::nullopt;
}

bool Recipe::rule_names(std::string_view name, std::string_view key) const {
  const auto rule = matching_rule(name);
  return rule && given_value(state_->rules[*rule].section, key) != nullptr;
}

TensorSettings Recipe::settings(std::string_view name) const {
  const auto rule = matching_rule(name);
  return rule ? state_->resolve_rule(*rule) : state_->resolve_defaults();
}

std::vector<std::string> Recipe::rules() const {
  std::vector<std::string> patterns;
  for (const Rule& rule : state_->rules) patterns.push_back(rule.match.text());
  return patterns;
}

const std::optional<Budget>& Recipe::budget() const { return state_->budget; }

std::optional<Tuning> Recipe::tuning() const {
  return state_->tuning && state_->tuning->epochs > 0 ? state_->tuning : std::nullopt;
}

Json Recipe::canonical_json() const {
  Json json;
  json["defaults"] = section_json(state_->resolve_defaults(), nullptr);
  for (std::size_t i = 0; i < state_->rules.size(); ++i) {
    Json rule{{"match", state_->rules[i].match.text()}};
    rule.update(section_json(state_->resolve_rule(i), &state_->rules[i].section));
    json["layers"].push_back(std::move(rule));
  }
  if (const auto& budget = state_->budget) {
    json["budget"] = {
        {"bits_per_weight", budget->bits_per_weight}, {"bits", budget->bits}, {"granularity", Json::array()}};
    for (const Granularity granularity : budget->granularity)
      json["budget"]["granularity"].push_back(granularity_name(granularity));
    if (!budget->window_bits.empty()) json["budget"]["window_bits"] = budget->window_bits;
    json["budget"]["estimate"] = loss_estimate_name(budget->estimate);
    if (budget->probe_windows > 0) json["budget"]["probe_windows"] = budget->probe_windows;
  }
  if (const auto own = tuning()) json["tuning"] = tuning_section(*own);
  return json;
}

std::string Recipe::canonical_text() const {
  std::string text;
  const Json json = canonical_json();
  for (const auto& [section, content] : json.items()) {
    text += section + ":\n";
    if (content.is_object()) {
      for (const auto& [name, value] : content.items()) append_entry(text, "  ", name, value);
      continue;
    }
    for (const Json& rule : content)
      for (const auto& [name, value] : rule.items()) append_entry(text, name == "match" ? "  - " : "    ", name, value);
  }
  return text;
}

}  // namespace nibble::quant

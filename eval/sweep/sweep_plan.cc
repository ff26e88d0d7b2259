#include "eval/sweep/sweep_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <tuple>

#include "core/error.h"
#include "core/files/hash.h"
#include "core/machine/program_identity.h"
#include "core/matrix/gemm.h"
#include "core/text/json.h"
#include "datasets/document_reader.h"
#include "eval/quality/average_names.h"
#include "eval/quality/protocol_run.h"
#include "eval/sweep/given_checkpoint.h"
#include "eval/sweep/recipe_grid.h"
#include "eval/sweep/speed_section.h"
#include "eval/sweep/sweep_file.h"
#include "eval/sweep/sweep_inputs.h"
#include "model/architecture/architecture.h"
#include "model/open/open_model.h"
#include "model/tokenizer/agreement.h"
#include "quant/job/plan/plan.h"
#include "quant/job/recipe_needs.h"

namespace nibble::eval {
namespace {

using calib::either;
using calib::StatisticSet;
using Json = nlohmann::ordered_json;

std::string hash_of(const Facts& facts) {
  Hasher hasher;
  for (const auto& [name, value] : facts) hasher.update(name).update(value);
  return hasher.hex();
}

// What weighs these statistics: where none of them is guided, nothing does.
calib::Guide guide_of(const SweepCalibration& calibration, const StatisticSet& statistics) {
  return statistics.is_guided() ? calibration.guide.value_or(calib::default_guide(statistics)) : calib::Guide::kPlain;
}

// What a calibration's numbers depend on, as one job sees them.
Json calibration_json(const calib::RunSettings& settings, calib::Guide guide, bool centre_own,
                      const StatisticSet& statistics) {
  Json json;
  for (const auto& [name, value] : calib::describe(settings))
    if (name != "model_hash" && name != "kernels" && name != "head" && name != "centre" && name != "collected" &&
        name != "guide")
      json[name] = value;
  if (!statistics.fisher) json["flavour"] = calib::to_text(calib::FisherFlavour::kSequence);  // there is none
  // Records of plain ones say nothing, as before there was a choice.
  if (guide != calib::Guide::kPlain) json["guide"] = calib::to_text(guide);
  json["centre"] = centre_own ? calib::kCentreOwn : calib::kCentreNone;
  json["collected"] = calib::to_text(statistics);
  return json;
}

Json evaluation_json(const EvaluationTokens& tokens, const PerplexityOptions& options, bool divergence) {
  Json json{{"tokens_hash", tokens.hash},
            {"tokens", tokens.tokens.size()},
            {"tokenizer_hash", nullptr},
            {"protocol", datasets::protocol_name(options.protocol)},
            {"context", options.context},
            {"stride", options.stride},
            {"average", name_of(options.average, kAverages)},
            {"bos", nullptr},
            {"divergence", divergence}};
  if (tokens.tokenizer) json["tokenizer_hash"] = tokens.tokenizer->fingerprint();
  if (options.bos) json["bos"] = *options.bos;
  if (!options.text_ends.empty()) json["text_ends"] = options.text_ends;
  return json;
}

// The sections of a sweep file that say the same again: `sources` of a record.
std::string source_text(const SweepCalibration& calibration, const CalibrationDraw& draw,
                        const StatisticSet& statistics) {
  Json json;
  for (const auto& file : calibration.text) json["text"].push_back(file.string());
  if (!calibration.tokens.empty()) json["tokens"] = calibration.tokens.string();
  if (draw.samples > 0) json["samples"] = draw.samples;
  if (calibration.length > 0) json["length"] = calibration.length;
  if (calibration.field != datasets::kDefaultField) json["field"] = calibration.field;
  if (!calibration.text.empty() || calibration.labels == calib::Labels::kSampled) json["seed"] = draw.seed;
  json["fisher"] = calib::to_text(statistics.fisher ? calibration.flavour : calib::FisherFlavour::kSequence);
  json["labels"] = calib::to_text(calibration.labels);
  json["centre"] = calibration.centre_own ? "own" : "none";
  if (const calib::Guide guide = guide_of(calibration, statistics); guide != calib::Guide::kPlain)
    json["guide"] = calib::to_text(guide);
  if (calibration.bos) json["bos"] = true;
  json["collect"] = calibration.collect == StatisticSet{} ? "none" : calib::to_text(calibration.collect);
  return json.dump();
}

std::string source_text(const SweepEvaluation& evaluation) {
  Json json{{"name", evaluation.name}};
  if (evaluation.speed) {
    json["speed"] = speed_json(*evaluation.speed);
    return json.dump();
  }
  for (const auto& file : evaluation.text) json["text"].push_back(file.string());
  for (const auto& file : evaluation.tokens) json["tokens"].push_back(file.string());
  if (!evaluation.use.empty()) json["use"] = evaluation.use;
  if (evaluation.hf_join) json["hf_join"] = true;
  if (evaluation.max_tokens > 0) json["max_tokens"] = evaluation.max_tokens;
  json["protocol"] = datasets::protocol_name(evaluation.protocol);
  if (evaluation.context > 0) json["context"] = evaluation.context;
  if (evaluation.protocol == datasets::Protocol::kSliding) {
    if (evaluation.stride > 0) json["stride"] = evaluation.stride;
    json["average"] = name_of(evaluation.average, kAverages);
  }
  if (evaluation.bos) json["bos"] = true;
  if (evaluation.divergence) json["divergence"] = true;
  return json.dump();
}

void require_positions(const PerplexityOptions& options, const model::Architecture& architecture,
                       const std::string& whose) {
  NIBBLE_REQUIRE(
      options.context <= architecture.position_limit(), InvalidArgument,
      "sweep: windows of {} tokens, and {} has learned {} positions; give the evaluation a shorter `context`",
      options.context, whose, architecture.position_limit());
}

// Cells would fail one by one, when it is their turn.
void require_room(const PlannedSpeed& speed, const SweepEvaluation& evaluation, const model::Architecture& architecture,
                  const std::string& whose) {
  constexpr SpeedSizeNames kNames{.context = "contexts",
                                  .prompt = "prompt",
                                  .generate = "generate",
                                  .window_context = "a window's context",
                                  .window_chunk = "a window's chunk"};
  try {
    for (const SpeedOptions& options : speed.contexts) require_room(options, architecture, kNames);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(
        fmt::format("sweep: evaluation '{}' of {}: speed: {}; give other sizes, or `exclude` these cells",
                    evaluation.name, whose, error.what()));
  }
}

PlannedSpeed planned_speed(const SweepSpeed& speed) {
  SpeedOptions options;
  options.generate = speed.generate;
  options.warm_up = speed.warm_up;
  options.repeat = speed.repeat;
  options.seed = speed.seed;
  options.cache.kind = speed.cache;
  options.cache.type = speed.cache_type;
  return {.contexts = at_contexts(options, speed.contexts, speed.prompt), .compute = speed.compute};
}

class Planner {
 public:
  explicit Planner(const SweepSpec& spec) : spec_(spec) {}

  SweepPlan plan() {
    plan_.file = spec_.file;
    for (const SweepModel& model : spec_.models) open(model);
    for (const SweepCell& cell : spec_.cells) add(cell);
    std::erase_if(plan_.jobs, [](const PlannedJob& job) { return job.cells.empty(); });
    finish_calibrations();
    return std::move(plan_);
  }

 private:
  /// Of cells that say the same: the one that is done, and where it stands in the plan.
  struct FirstCell {
    SweepCell cell;
    std::size_t job = 0, place = 0;
  };

  void open(const SweepModel& source) {
    PlannedModel model{source, model::open_checkpoint(source.path), {}};
    model.architecture = model.checkpoint->architecture();
    plan_.models.push_back(std::move(model));
  }

  // What the job needs of the model's calibration, and what is measured with it besides; and what it does to which
  // weights.
  quant::Plan add_needs(const SweepCell& cell, PlannedJob& job) {
    const SweepRecipe& recipe = spec_.recipes[cell.recipe];
    const PlannedModel& model = plan_.models[cell.model];
    quant::Plan planned = quant::make_plan(model.checkpoint, model.architecture, *recipe.recipe);
    const StatisticSet needed = quant::statistics_needed(planned, *recipe.recipe);
    job.needs_text = quant::needs_text(planned, *recipe.recipe);
    job.needs_head = quant::needs_head(planned);
    for (const std::string& rule : planned.unused_rules)
      plan_.warnings.push_back(
          fmt::format("recipe '{}': rule '{}' applies to no tensor of '{}'", recipe.name, rule, model.source.name));
    NIBBLE_REQUIRE(spec_.calibration || needed == StatisticSet{}, InvalidArgument,
                   "sweep: recipe '{}' needs the statistics {}; add a `calibration` section", recipe.name,
                   calib::to_text(needed));
    NIBBLE_REQUIRE(spec_.calibration || !job.needs_text, InvalidArgument,
                   "sweep: recipe '{}' runs text through the model (sequential, tuning); add a `calibration` section",
                   recipe.name);
    if (spec_.calibration) job.statistics = either(needed, spec_.calibration->collect);
    return planned;
  }

  std::size_t calibration_of(std::size_t model, std::size_t draw) {
    const auto known = calibrations_.find({model, draw});
    if (known != calibrations_.end()) return known->second;
    PlannedCalibration calibration =
        read_calibration(*spec_.calibration, spec_.calibration->draw(draw), plan_.models[model], {}, spec_.recipes);
    calibration.model = model;
    for (std::string& warning : datasets::warnings(calibration.windows)) plan_.warnings.push_back(std::move(warning));
    warn_of_length(fmt::format("calibration of '{}'", plan_.models[model].source.name), model,
                   calibration.windows.length);
    plan_.calibrations.push_back(std::move(calibration));
    return calibrations_[{model, draw}] = plan_.calibrations.size() - 1;
  }

  PlannedJob& job_of(const SweepCell& cell) {
    const auto known = jobs_.find({cell.model, cell.recipe, cell.draw});
    if (known != jobs_.end()) return plan_.jobs[known->second];
    PlannedJob job;
    job.model = cell.model;
    job.recipe = spec_.recipes[cell.recipe].recipe;
    std::string calibration = "null", recipe = "null";
    if (job.recipe) recipe = job.recipe->canonical_json().dump();
    if (const auto& given = spec_.recipes[cell.recipe].checkpoint; !given.empty()) {
      const PlannedModel& model = plan_.models[cell.model];
      job.given = open_given(checkpoint_for(given, model.source.name), model);
      recipe = Json{{"checkpoint", {{"fingerprint", job.given->fingerprint()}}}}.dump();
      for (const std::string& setting : other_settings(job.given->architecture(), model.architecture))
        plan_.warnings.push_back(fmt::format("checkpoint '{}' has another {} than '{}'",
                                             job.given->directory().string(), setting, model.source.name));
    }
    std::optional<quant::Plan> quantizing;
    if (job.recipe) quantizing = add_needs(cell, job);
    quant::TextWindows windows;
    if (!(job.statistics == StatisticSet{}) || job.needs_text) {
      job.calibration = calibration_of(cell.model, cell.draw);
      PlannedCalibration& planned = plan_.calibrations[*job.calibration];
      planned.settings.collected = either(planned.settings.collected, job.statistics);
      planned.settings.head = planned.settings.head || job.needs_head;
      Json json = calibration_json(planned.settings, guide_of(*spec_.calibration, job.statistics), planned.centre_own,
                                   job.statistics);
      // A text's hash is of all of it, that of ids of the windows alone, which tuning goes beyond.
      const std::size_t behind = job.recipe ? windows_behind(*job.recipe, planned.windows.samples) : 0;
      windows = {planned.windows.samples, planned.windows.samples + behind};
      if (behind > 0 && !spec_.calibration->tokens.empty()) {
        const std::span<const TokenId> further(planned.further);
        json["held_out_hash"] = hash_hex(std::as_bytes(further.first(behind * planned.windows.length)));
      }
      calibration = json.dump();
    }
    if (quantizing) job.work = quant::estimate_work(*quantizing, *job.recipe, windows, job.statistics);
    const Facts made{{"model", Json{{"fingerprint", plan_.models[cell.model].checkpoint->fingerprint()}}.dump()},
                     {"recipe", recipe},
                     {"calibration", calibration}};
    job.id = hash_of(made);
    configurations_.push_back(made);
    jobs_[{cell.model, cell.recipe, cell.draw}] = plan_.jobs.size();
    plan_.jobs.push_back(std::move(job));
    return plan_.jobs.back();
  }

  const std::shared_ptr<const EvaluationTokens>& tokens_of(const SweepCell& cell) {
    auto& tokens = tokens_[{cell.model, cell.evaluation}];
    if (tokens) return tokens;
    const SweepEvaluation& evaluation = spec_.evaluations[cell.evaluation];
    const PlannedModel& model = plan_.models[cell.model];
    warn_of_length(fmt::format("evaluation '{}' of '{}'", evaluation.name, model.source.name), cell.model,
                   evaluation.context);
    return tokens = read_tokens(evaluation, model);
  }

  void warn_of_length(std::string_view where, std::size_t model, std::size_t tokens) {
    const auto warning = model::warning_of_length(plan_.models[model].architecture, tokens);
    if (!warning) return;
    std::string text = fmt::format("{}: {}", where, *warning);
    if (std::ranges::count(plan_.warnings, text) == 0) plan_.warnings.push_back(std::move(text));  // once for all draws
  }

  const std::shared_ptr<const model::Tokenizer>& tokenizer_of(const model::Checkpoint& given) {
    const auto known = tokenizers_.find(&given);
    if (known != tokenizers_.end()) return known->second;
    return tokenizers_[&given] = model::open_tokenizer_if_any(given.directory());
  }

  std::size_t reference_of(const SweepCell& cell, const PlannedCell& planned) {
    const auto known = references_.find({cell.model, cell.evaluation});
    if (known != references_.end()) return known->second;
    Hasher hasher;
    hasher.update(plan_.models[cell.model].checkpoint->fingerprint())
        .update(evaluation_json(*planned.tokens, planned.options, true).dump())
        .update(gemm_identity())
        .update(program_identity());
    plan_.references.push_back({.model = cell.model,
                                .evaluation = spec_.evaluations[cell.evaluation].name,
                                .tokens = planned.tokens,
                                .options = planned.options,
                                .key = fmt::format("reference-{}", hasher.hex()),
                                .cost = {}});
    return references_[{cell.model, cell.evaluation}] = plan_.references.size() - 1;
  }

  // With what tells calibrations apart where there are several.
  std::string recipe_label(const SweepCell& cell) const {
    const SweepRecipe& recipe = spec_.recipes[cell.recipe];
    std::string label = recipe.name;
    if (!recipe.recipe || !spec_.calibration) return label;
    const CalibrationDraw draw = spec_.calibration->draw(cell.draw);
    if (spec_.calibration->samples.size() > 1) label += fmt::format(", {} windows", draw.samples);
    if (spec_.calibration->seeds.size() > 1) label += fmt::format(", seed {}", draw.seed);
    return label;
  }

  // Of two cells that say the same the first is done, under the name that the user looks for.
  void keep_given_name(FirstCell& first, const SweepCell& again) {
    warn_of_left_out("model", spec_.models[first.cell.model].name, spec_.models[again.model].name);
    warn_of_left_out("evaluation", spec_.evaluations[first.cell.evaluation].name,
                     spec_.evaluations[again.evaluation].name);
    const SweepRecipe &done = spec_.recipes[first.cell.recipe], &left_out = spec_.recipes[again.recipe];
    if (!left_out.is_named || left_out.name == done.name) return;
    if (!done.is_named) {
      set_fact(plan_.jobs[first.job].cells[first.place].record.labels, "recipe", recipe_label(again));
      first.cell.recipe = again.recipe;
    } else {
      warn_of_left_out("recipe", done.name, left_out.name);
    }
  }

  void warn_of_left_out(std::string_view kind, const std::string& done, const std::string& left_out) {
    if (left_out == done) return;
    std::string text = fmt::format("{} '{}' says the same as '{}' and is left out; reports have it under that name",
                                   kind, left_out, done);
    if (left_out_.insert(text).second) plan_.warnings.push_back(std::move(text));
  }

  void add(const SweepCell& cell) {
    const SweepEvaluation& evaluation = spec_.evaluations[cell.evaluation];
    const PlannedModel& model = plan_.models[cell.model];
    PlannedJob& job = job_of(cell);
    PlannedCell planned;
    std::string measured;
    if (evaluation.speed) {
      planned.speed = planned_speed(*evaluation.speed);
      require_room(*planned.speed, evaluation, model.architecture, fmt::format("model '{}'", model.source.name));
      if (job.given)
        require_room(*planned.speed, evaluation, job.given->architecture(),
                     fmt::format("checkpoint '{}'", job.given->directory().string()));
      Json json = speed_json(*evaluation.speed);
      json["measure"] = "speed";
      measured = json.dump();
    } else {
      planned.tokens = tokens_of(cell);
      planned.options = perplexity_options(evaluation, model, planned.tokens);
      const bool is_float = !job.recipe && !job.given;
      planned.divergence = evaluation.divergence && !is_float;  // it does not diverge from itself
      (void)protocol_windows(planned.options, planned.tokens->tokens.size(),
                             model.architecture.max_positions);  // throws what is wrong with them now
      require_positions(planned.options, model.architecture, fmt::format("model '{}'", model.source.name));
      if (job.given)
        require_positions(planned.options, job.given->architecture(),
                          fmt::format("checkpoint '{}'", job.given->directory().string()));
      if (job.given && planned.tokens->tokenizer)
        model::require_agreement(planned.tokens->tokens, *planned.tokens->tokenizer, tokenizer_of(*job.given).get(),
                                 fmt::format("sweep: checkpoint '{}'", job.given->directory().string()));
      if (evaluation.divergence) planned.reference = reference_of(cell, planned);
      measured = evaluation_json(*planned.tokens, planned.options, planned.divergence).dump();
    }
    SweepRecord& record = planned.record;
    const auto number = static_cast<std::size_t>(&job - plan_.jobs.data());
    record.configuration = configurations_[number];
    record.configuration.emplace_back("evaluation", measured);
    record.id = hash_of(record.configuration);
    const auto [first, is_new] = first_.try_emplace(record.id, FirstCell{cell, number, job.cells.size()});
    if (!is_new) {
      ++plan_.repeated;
      return keep_given_name(first->second, cell);
    }
    record.labels = {{"model", model.source.name}, {"recipe", recipe_label(cell)}, {"evaluation", evaluation.name}};
    if (!evaluation.use.empty()) record.labels.emplace_back("use", evaluation.use);
    record.sources = {{"model", model.source.path.string()}, {"evaluation", source_text(evaluation)}};
    if (job.calibration)
      record.sources.emplace_back("calibration",
                                  source_text(*spec_.calibration, spec_.calibration->draw(cell.draw), job.statistics));
    if (job.given) record.sources.emplace_back("checkpoint", job.given->directory().string());
    job.alone = job.alone || planned.speed;
    job.cells.push_back(std::move(planned));
    ++plan_.cells;
  }

  // Their keys are known once all recipes have said what they need.
  void finish_calibrations() {
    for (PlannedCalibration& calibration : plan_.calibrations) {
      NIBBLE_REQUIRE(!calibration.centre_own || calibration.settings.collected.fisher, InvalidArgument,
                     "sweep: `centre` concerns the statistic fisher, which no cell needs or collects");
      NIBBLE_REQUIRE(
          calibration.settings.flavour == calib::FisherFlavour::kSequence || calibration.settings.collected.fisher,
          InvalidArgument, "sweep: `fisher: position` concerns the statistic fisher, which no cell needs or collects");
      NIBBLE_REQUIRE(!spec_.calibration->guide || calibration.settings.collected.is_guided(), InvalidArgument,
                     "sweep: `guide` concerns guided-hessian and output-hessian, which no cell needs or collects");
      calibration.settings.guide = guide_of(*spec_.calibration, calibration.settings.collected);
      Hasher hasher;
      hasher.update(plan_.models[calibration.model].checkpoint->fingerprint())
          .update(calibration_json(calibration.settings, calibration.settings.guide, calibration.centre_own,
                                   calibration.settings.collected)
                      .dump())
          .update(gemm_identity())  // statistics of another processor or library are not these
          .update(program_identity());
      if (calibration.settings.head) hasher.update("with the head");
      calibration.key = fmt::format("calibration-{}", hasher.hex());
    }
  }

  const SweepSpec& spec_;
  SweepPlan plan_;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> calibrations_;        // by model and draw
  std::map<std::tuple<std::size_t, std::size_t, std::size_t>, std::size_t> jobs_;  // by model, recipe, draw
  std::map<std::pair<std::size_t, std::size_t>, std::shared_ptr<const EvaluationTokens>> tokens_;  // and evaluation
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> references_;                          // likewise
  std::map<const model::Checkpoint*, std::shared_ptr<const model::Tokenizer>> tokenizers_;         // of those given
  std::vector<Facts> configurations_;       // of jobs, without evaluation
  std::map<std::string, FirstCell> first_;  // by id
  std::set<std::string> left_out_;          // warnings of names
};

// Relative paths lead elsewhere from another directory.
void require_inputs(const SweepSpec& spec, std::string_view what) {
  const auto require = [&](const std::filesystem::path& path) {
    std::error_code unknown;  // then opening it says what is wrong
    NIBBLE_REQUIRE(
        std::filesystem::exists(path, unknown) || unknown, FormatError,
        "{}: there is no '{}': paths of a record are those of the directory where its sweep ran; repeat it there", what,
        path.string());
  };
  for (const SweepModel& model : spec.models) require(model.path);
  for (const SweepRecipe& recipe : spec.recipes)
    if (!recipe.checkpoint.empty()) require(recipe.checkpoint);
  for (const SweepEvaluation& evaluation : spec.evaluations) {
    std::ranges::for_each(evaluation.text, require);
    std::ranges::for_each(evaluation.tokens, require);
  }
  if (!spec.calibration) return;
  std::ranges::for_each(spec.calibration->text, require);
  if (!spec.calibration->tokens.empty()) require(spec.calibration->tokens);
}

// Of a record's calibration, which may be of a version that did not refuse it.
void drop_what_changes_nothing(Json& section) {
  const Json text = section.value("text", Json::array());
  const bool lines = text.is_array() && std::ranges::any_of(text, [](const Json& file) {
                       return file.is_string() && datasets::holds_json_lines(file.get<std::string>());
                     });
  if (!lines) section.erase("field");
  if (section.contains("tokens") && section.value("labels", Json()) != "sampled") section.erase("seed");
}

}  // namespace

SweepPlan plan_sweep(const SweepSpec& spec) { return Planner(spec).plan(); }

SweepPlan plan_repetition(const SweepRecord& record) {
  Json sweep;
  sweep["models"].push_back({{"path", fact(record.sources, "model")}, {"name", fact(record.labels, "model")}});
  const std::string what = fmt::format("record {}", record.id);
  const auto add = [&](const char* name, bool list) {
    if (fact(record.sources, name).empty()) return;
    Json section = fact_json(record.sources, name);
    NIBBLE_REQUIRE(section.is_object(), FormatError, "{}: sources.{}: not JSON", what, name);
    if (list) {
      section.erase("use");  // a label, which older records may give to the text of their calibration
      sweep["evaluations"].push_back(section);
    } else {
      if (const auto guide = recorded_guide(record)) section["guide"] = *guide;  // of a plain one records say nothing
      drop_what_changes_nothing(section);
      sweep[name] = section;
    }
  };
  add("calibration", false);
  add("evaluation", true);
  sweep["list"].push_back("float");
  SweepSpec spec = parse_sweep(sweep.dump(), what);
  const std::string_view recipe = fact(record.configuration, "recipe");
  spec.recipes[0].name = fact(record.labels, "recipe");
  if (!spec.evaluations.empty()) spec.evaluations[0].use = fact(record.labels, "use");
  spec.recipes[0].checkpoint = fact(record.sources, "checkpoint");
  const bool given = Json::parse(recipe, nullptr, false).contains("checkpoint");
  NIBBLE_REQUIRE(given != spec.recipes[0].checkpoint.empty(), FormatError,
                 "{}: expected sources.checkpoint where the recipe is a checkpoint, and nowhere else", what);
  if (recipe != "null" && !given) spec.recipes[0].recipe = quant::Recipe::parse(recipe, what);
  require_inputs(spec, what);
  SweepPlan plan = plan_sweep(spec);
  const SweepRecord& planned = plan.jobs.front().cells.front().record;
  for (const auto& [name, value] : record.configuration)
    NIBBLE_REQUIRE(fact(planned.configuration, name) == value, InvalidArgument,
                   "{}: the {} is another one now: the record has {}, here it is {}", what, name, value,
                   fact(planned.configuration, name));
  NIBBLE_REQUIRE(planned.id == record.id, InvalidArgument, "{}: its id does not belong to its configuration", what);
  return plan;
}

}  // namespace nibble::eval

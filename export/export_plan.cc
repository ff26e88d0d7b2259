#include "export/export_plan.h"

#include <algorithm>
#include <map>

#include "core/error.h"

namespace nibble::exporting {

std::string group_name(const Exporter& exporter, const model::Architecture& architecture,
                       const model::Parameter& parameter) {
  return exporter.group_name ? exporter.group_name(architecture, parameter) : parameter.weight.tensor;
}

Fit fit_of(const Exporter& exporter, const Storage& storage) {
  Fit fit = exporter.fit(storage);
  if (storage.foreign.empty() || fit.kind == Fit::Kind::kFloats) return fit;
  return Fit::refused("codes of another program are read as floats here, and would be written as such",
                      "`nibble quantize` of this model with a preset for the format");
}

Fit fit_in_group(const Exporter& exporter, const Storage& storage, const std::string& group, bool mixed) {
  Fit fit = fit_of(exporter, storage);
  if (!mixed || (fit.kind != Fit::Kind::kExact && fit.kind != Fit::Kind::kRounded)) return fit;
  return Fit::refused(fmt::format("it stands in one tensor, '{}', with matrices that are stored differently", group),
                      fmt::format("the same settings for all of '{}'", group));
}

void refuse_biases(const Exporter& exporter, const model::Architecture& architecture,
                   const std::function<bool(const model::Parameter& layer)>& has_bias) {
  if (exporter.bias_objection == nullptr) return;
  for (const model::Parameter* layer : model::matrices(architecture)) {
    if (!has_bias(*layer)) continue;
    const std::string objection = exporter.bias_objection(architecture, *layer);
    NIBBLE_REQUIRE(objection.empty(), InvalidArgument, "{}", objection);
  }
}

void refuse(const Exporter& exporter, const std::vector<Refusal>& refusals, std::string_view advice) {
  if (refusals.empty()) return;
  const Refusal& first = refusals.front();
  const std::string more =
      refusals.size() == 1 ? "" : fmt::format(" ({} matrices in all are refused)", refusals.size());
  const std::string nearest =
      first.fit.nearest.empty() ? "" : fmt::format("; the nearest that it holds: {}", first.fit.nearest);
  throw InvalidArgument(fmt::format("{}: cannot hold '{}', stored as {}: {}{}{}. {}", exporter.name, first.module,
                                    first.storage.text(), first.fit.why, nearest, more, advice));
}

ExportPlan plan_export(const Exporter& exporter, const ExportModel& model, const ExportOptions& options) {
  ExportPlan plan{.model = model, .options = options, .groups = {}, .group_index = {}};
  std::map<std::string, std::size_t> index;
  for (const ExportPart& part : model.parts()) {
    const auto [found, added] =
        index.try_emplace(group_name(exporter, model.architecture(), *part.parameter), plan.groups.size());
    if (added) plan.groups.push_back({.name = found->first, .parts = {}});
    plan.groups[found->second].parts.push_back(&part);
    plan.group_index.push_back(found->second);
  }
  std::vector<Refusal> refusals;
  for (ExportGroup& group : plan.groups) {
    const Storage& first = group.parts.front()->storage;
    const bool mixed = std::any_of(group.parts.begin(), group.parts.end(),
                                   [&](const ExportPart* part) { return !part->storage.same_codes(first); });
    for (const ExportPart* part : group.parts) {
      const Storage& storage = part->storage;
      if (!storage.coded() && storage.foreign.empty()) continue;
      const Fit fit = fit_in_group(exporter, storage, group.name, mixed);
      if (fit.kind == Fit::Kind::kFloats) group.as_floats = true;
      if (fit.kind == Fit::Kind::kRefused) refusals.push_back({part->parameter->module, storage, fit});
      group.as_floats = group.as_floats || fit.kind == Fit::Kind::kRefused;
    }
    if (!first.coded()) group.as_floats = true;
  }
  if (options.rest == Rest::kRefuse)
    refuse(
        exporter, refusals,
        fmt::format("Quantize with such a recipe (`nibble quantize --for {}` says so early), or have it written in 16 "
                    "bits: --rest float16",
                    exporter.name));
  return plan;
}

}  // namespace nibble::exporting

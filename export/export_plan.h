#pragma once

#include <functional>

#include "export/exporter.h"

namespace nibble::exporting {

/// Decides for every matrix whether it is written as codes or as floats. Throws InvalidArgument naming the first matrix
/// that the format refuses, its storage, why, the nearest recipe, and how many more there are, unless options.rest is
/// kFloat16; and where matrices of one tensor of the output are stored differently.
ExportPlan plan_export(const Exporter& exporter, const ExportModel& model, const ExportOptions& options);

/// Throws InvalidArgument for the first matrix that has a bias which the programs of `exporter` do not add.
void refuse_biases(const Exporter& exporter, const model::Architecture& architecture,
                   const std::function<bool(const model::Parameter& layer)>& has_bias);

/// How `exporter` holds a storage. Blocks and narrow floats of other programs are read as floats here: only formats
/// that are floats anyway take them without being told.
Fit fit_of(const Exporter& exporter, const Storage& storage);
/// The same of a matrix that stands in tensor `group` of the output, with others that are stored differently if
/// `mixed`.
Fit fit_in_group(const Exporter& exporter, const Storage& storage, const std::string& group, bool mixed);

/// A matrix that a format refuses.
struct Refusal {
  std::string module;
  Storage storage;
  Fit fit;
};
/// Throws the InvalidArgument for `refusals`, with what to do about it, unless there are none.
void refuse(const Exporter& exporter, const std::vector<Refusal>& refusals, std::string_view advice);

/// The tensor of the output that a matrix is part of.
std::string group_name(const Exporter& exporter, const model::Architecture& architecture,
                       const model::Parameter& parameter);

}  // namespace nibble::exporting

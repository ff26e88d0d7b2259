#pragma once

#include "export/exporter.h"

namespace nibble::exporting {

/// Decides for every matrix whether it is written as codes or as floats. Throws InvalidArgument naming the first matrix
/// that the format refuses, its storage, why, the nearest recipe, and how many more there are, unless options.rest is
/// kFloat16; and where matrices of one tensor of the output are stored differently.
ExportPlan plan_export(const Exporter& exporter, const ExportModel& model, const ExportOptions& options);

/// How `exporter` holds a storage. Blocks and narrow floats of other programs are read as floats here: only formats
/// that are floats anyway take them without being told.
Fit fit_of(const Exporter& exporter, const Storage& storage);

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

#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "eval/sweep/planned_sweep.h"

namespace nibble::eval {

/// Opens a checkpoint that is to be compared with `model`: the same layers, heads and vocabulary, quantized. Throws
/// FormatError (a checkpoint that is not there, or broken) and InvalidArgument (another model, or floats).
std::shared_ptr<const model::Checkpoint> open_given(const std::filesystem::path& path, const PlannedModel& model);

/// What the checkpoint computes otherwise than the model beside its weights, as "rotary base": converters lose such
/// things, and a user who compares should know. Empty: nothing that is looked at.
std::vector<std::string> other_settings(const model::Architecture& given, const model::Architecture& model);

}  // namespace nibble::eval

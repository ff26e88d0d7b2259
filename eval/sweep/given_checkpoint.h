#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "eval/sweep/planned_sweep.h"

namespace nibble::eval {

/// Where a sweep's checkpoint of the model called `model` lies: "{model}" in its path stands for that name.
std::filesystem::path checkpoint_for(const std::filesystem::path& path, std::string_view model);

/// The fingerprint of a checkpoint that is to be compared with `model`: the same layers, quantized. Throws
/// FormatError (a checkpoint that is not there, or broken) and InvalidArgument (another model).
std::string fingerprint_of_form(const std::filesystem::path& checkpoint, const PlannedModel& model);

/// Throws InvalidArgument where the checkpoint's tokenizer means another text by the evaluation's tokens.
void require_same_tokens(const std::filesystem::path& checkpoint, const EvaluationTokens& evaluation);

}  // namespace nibble::eval

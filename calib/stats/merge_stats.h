#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "calib/stats/run_settings.h"

namespace nibble::calib {

/// The settings of a file that holds the windows of all `parts`. Throws InvalidArgument naming what differs (only
/// text, windows, seeds and kernels may), or when two parts hold the same windows, which would count twice, as far as
/// their settings tell: not of token files whose windows follow each other and overlap, nor of a part that an earlier
/// merge holds already.
RunSettings merged_settings(std::span<const RunSettings> parts);

/// What whoever adds up `parts` should hear: that they are of different builds of the program, as far as they say.
std::optional<std::string> warning_of_programs(std::span<const RunSettings> parts);

/// Merges calibration files of parts of one piece of work into `output`, a layer at a time.
///
/// Counts add exactly. Sums of double type are added in the order of `inputs` (n files: relative error at most
/// (n-1)·2^-53 of the sum of magnitudes); matrices are added in double and rounded to float once, so an element is
/// within 2^-24·(its own magnitude + the sum of the parts' magnitudes) of the sum over all windows. With a whitened
/// guide the tokens of each part weigh by the metric of its own first windows: not what one run over all gives.
/// Throws InvalidArgument (fewer than two files, other settings, other layers, an output that is there), FormatError (a
/// file).
void merge_stats(std::span<const std::filesystem::path> inputs, const std::filesystem::path& output);
/// The same under settings that the caller answers for: those of a run over the windows of all inputs, in their order,
/// but for `program`, which is the inputs'.
void merge_stats(std::span<const std::filesystem::path> inputs, const RunSettings& merged,
                 const std::filesystem::path& output);

}  // namespace nibble::calib

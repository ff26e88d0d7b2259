#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "eval/report/report_input.h"

namespace nibble::test {

/// Records of an eight-way ablation (weighting × scaling × shifting) at 4, 3 and 2 bits, and of the float model, as a
/// sweep writes them: 25 records of made-up but plausible figures, the same every time. Better settings have lower
/// losses, so shifting + scaling + weighting at 4 bits is the best cell.
std::vector<eval::SweepRecord> example_sweep();

/// The same with `poison` at the end of every name, message and command, and one cell failed.
std::vector<eval::SweepRecord> hostile_sweep(const std::string& poison);

/// `record` as the cell of a checkpoint that the sweep was given: called `name`, at most 16 letters, without a
/// recipe or a calibration.
eval::SweepRecord given_checkpoint(eval::SweepRecord record, const std::string& name);

/// Writes each as ID.json into `directory`.
void write_records(const std::filesystem::path& directory, const std::vector<eval::SweepRecord>& records);

}  // namespace nibble::test

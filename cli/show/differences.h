#pragma once

#include "eval/sweep/diff.h"

namespace nibble::cli {

void show_record_diff(const eval::RecordDiff& diff, bool json);
void show_checkpoint_diff(const eval::CheckpointDiff& diff, bool json);

}  // namespace nibble::cli

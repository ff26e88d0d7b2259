#pragma once

#include "eval/report/entries.h"

namespace nibble::eval {

/// Adds to `input.pooled` what each cell gives on all texts of one use together, where its model was measured on
/// several of that use, in one way (protocol, context, stride, average, BOS): their windows behind one another, by
/// name, and the figures and errors of these as of one text. A cell that lacks one of the texts has none. Of tokens'
/// divergences only the mean and the largest are known, and the share that agrees; NaN stands for the others. Call
/// before compare_to_baseline().
void pool_texts(ReportInput& input);

}  // namespace nibble::eval

#pragma once

#include <cstdint>

#include "export/exporter.h"

namespace nibble::exporting {

/// What reading the output back found.
struct ReadBack {
  std::uint64_t values = 0;        ///< compared: all of the model
  std::uint64_t coded_values = 0;  ///< of them in matrices written as codes: each equal, else the export fails
  std::uint64_t rounded = 0;       ///< others that are not as in the model: rounded to the floats of the output
  double largest_difference = 0.0;
};

/// Compares what `output` gives (an exporter's own reader) with the model, value by value. Matrices written as codes
/// must be equal, but where the format rounds their values (Fit::Kind::kRounded) to one rounding to float16; floats to
/// one rounding to the type that is written. Throws NumericalError naming tensor, row, column and both
/// values.
/// Source   relative error of rounding: bfloat16 2^-8, float16 2^-11 (2^-25 absolute below its normal numbers).
ReadBack compare_with_model(const Exporter& exporter, const ExportPlan& plan, const model::WeightProvider& output,
                            const ProgressSink& progress);

}  // namespace nibble::exporting

#pragma once

#include <filesystem>
#include <string_view>

#include "core/matrix/dtype.h"
#include "core/progress.h"
#include "export/exporter.h"

namespace nibble::exporting {

/// Writes `model` as plain safetensors in the family's own layout, floats of `dtype`, into the directory `output`, with
/// what travels along with a model. config.json is `config` without its quantization_config; it says the type of the
/// floats and where biases were added. Throws as FloatEncoder; FormatError for a full disk.
Written write_float_directory(const ExportModel& model, std::string_view config, DType dtype,
                              const std::filesystem::path& output, const ProgressSink& progress);

}  // namespace nibble::exporting

#pragma once

#include <filesystem>

#include "export/export_checkpoint.h"

namespace nibble::test {

/// `model` as plain floats in `output`.
inline exporting::ExportResult export_dequantized(const std::filesystem::path& model,
                                                  const std::filesystem::path& output, bool overwrite,
                                                  DType dtype = DType::kF16) {
  return exporting::export_checkpoint({.model = model,
                                       .output = output,
                                       .exporter = exporting::find_exporter("dequantized"),
                                       .options = {.dtype = dtype},
                                       .overwrite = overwrite,
                                       .progress = {}});
}

}  // namespace nibble::test

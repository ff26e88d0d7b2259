#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "export/exporter.h"
#include "export/read_back.h"
#include "quant/recipe/recipe.h"

namespace nibble::exporting {

struct ExportRequest {
  std::filesystem::path model, output;
  const Exporter& exporter;
  ExportOptions options;
  bool overwrite = false;
  ProgressSink progress;
};

struct ExportResult {
  Written written;
  double bits_per_weight = 0.0;        ///< of the blocks' linear layers, all that is stored for them
  std::size_t coded = 0;               ///< matrices written as codes
  std::vector<std::string> as_floats;  ///< coded matrices written as floats because the user said so, with the reason
  ReadBack read_back;
};

/// Writes a checkpoint in another program's form and reads it back. Codes, scales and zero points are copied; what the
/// format cannot hold is refused before anything is written, unless options.rest says otherwise. The output has its
/// name only when it is complete and, for directories, checked; a file that fails the check is removed.
///
/// Throws InvalidArgument (a network or a storage that the format does not hold: tensor, setting, nearest recipe; an
/// option that it does not take; the output exists and !overwrite), FormatError, NumericalError (a value that the
/// output's floats cannot hold; values read back that differ).
/// Memory   the largest tensor, twice.
ExportResult export_checkpoint(const ExportRequest& request);

/// Throws InvalidArgument as export_checkpoint() would, for what `recipe` is about to make of `model`: before
/// quantizing.
void require_exportable(const Exporter& exporter, const std::filesystem::path& model, const quant::Recipe& recipe);

/// One cell of the table of formats × storages.
struct ListedFit {
  std::string storage;
  Fit fit;
};
/// How `exporter` holds storages that stand for all there are.
std::vector<ListedFit> listed_fits(const Exporter& exporter);

}  // namespace nibble::exporting

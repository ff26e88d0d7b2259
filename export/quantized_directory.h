#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "export/coded_source.h"
#include "export/exporter.h"
#include "export/integer_grid.h"
#include "export/program_families.h"

namespace nibble::exporting {

/// Takes the bytes of a tensor in the order of the file, in pieces.
using ByteSink = std::function<void(std::span<const std::byte> bytes)>;

/// One of the tensors that stand for a coded matrix: of a stack, one of its slices.
struct CodedTensor {
  std::string suffix;  ///< "qweight"
  DType dtype = DType::kI32;
  std::vector<std::uint64_t> shape;
  std::function<void(const IntegerGrid& grid, const ByteSink& sink)> write;
};

/// A matrix of the output, or a stack of them.
struct OutputMatrix {
  const ExportGroup* group = nullptr;  ///< its name is the module's
  std::size_t slices = 0;              ///< of a stack; 0: one matrix
  bool by_expert = false;              ///< each slice is the matrix of one expert
  bool alone = false;                  ///< it is its only part, whatever the family's files join that with
  std::size_t rows = 0, cols = 0;      ///< (out, in), of a slice

  const Storage& storage() const { return group->parts.front()->storage; }
};

/// How a format writes a directory in the shape of Hugging Face.
struct DirectoryFormat {
  const ProgramFamilies& families;
  std::string_view metadata = "pt";  ///< `format` in the file's metadata
  bool out_in = false;               ///< float matrices lie (out, in), whatever the family's files have
  /// The tensors that stand for a coded matrix, one of those of `plan`.
  std::vector<CodedTensor> (*coded)(const OutputMatrix& matrix, const ExportPlan& plan) = nullptr;
  /// Adds to config.json what says how `matrices`, those written as codes, are to be read; `floats` are the others.
  void (*configure)(nlohmann::ordered_json& config, const ExportPlan& plan, std::span<const OutputMatrix> matrices,
                    std::span<const OutputMatrix> floats) = nullptr;
  /// What the program makes of this network that the model does not.
  std::vector<std::string> (*notes)(const model::Architecture& architecture) = nullptr;
  /// Whether the program has no bias at a layer although config.json could announce one. Null: it goes by config.json.
  bool (*lacks_bias)(const model::Architecture& architecture, const model::Parameter& layer) = nullptr;
};

/// Exporter::bias_objection() to those that shifting gave to layers that have none in this family.
std::string unread_bias(const DirectoryFormat& format, const model::Architecture& architecture,
                        const model::Parameter& layer);

/// Writes model.safetensors, config.json and what travels along. Floats are F16 unless options.dtype says otherwise.
/// Memory   a slice, for formats that store it (in, out); else pieces.
Written write_directory(const DirectoryFormat& format, const ExportPlan& plan, const std::filesystem::path& output,
                        const ProgressSink& progress);

/// The rows (out) of a slice.
std::vector<RowOrigin> rows_of(const OutputMatrix& matrix, std::size_t slice);

/// Whether any matrix of the plan that is written as codes has zero points of its own.
bool has_zero_points(const ExportPlan& plan);
/// Whether a matrix is a linear layer of a block: what programs expect to find quantized.
bool is_block_linear(const OutputMatrix& matrix);
/// The most frequent of `settings`, the least of them where several are.
template <class Settings>
Settings most_frequent(const std::vector<Settings>& settings) {
  std::map<Settings, std::size_t> count;
  for (const Settings& one : settings) ++count[one];
  return std::max_element(count.begin(), count.end(), [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

/// The line of such a format: kFormat writes it, kReading reads it back, and `fit` says what it holds.
template <const DirectoryFormat& kFormat, const DirectoryReading& kReading>
constexpr Exporter directory_exporter(std::string_view name, std::string_view programs, Fit (*fit)(const Storage&)) {
  return {.name = name,
          .programs = programs,
          .takes_dtype = true,
          .fit = fit,
          .require_known =
              [](const model::Architecture& architecture) { require_known_family(kFormat.families, architecture); },
          .bias_objection = [](const model::Architecture& architecture,
                               const model::Parameter& layer) { return unread_bias(kFormat, architecture, layer); },
          .group_name =
              [](const model::Architecture& architecture, const model::Parameter& parameter) {
                return output_module(kFormat.families, architecture, parameter);
              },
          .write = [](const ExportPlan& plan, const std::filesystem::path& output,
                      const ProgressSink& progress) { return write_directory(kFormat, plan, output, progress); },
          .read = [](const std::filesystem::path& output,
                     const ExportModel& model) { return read_directory(kReading, output, model.architecture()); }};
}

/// Why `storage` cannot stand in a format of integers with scales for groups of inputs, with codes of one of the widths
/// `bits`: a palette, another width, rows that do not consist of whole groups. Fit::exact() where it can.
Fit fit_integers(const Storage& storage, std::span<const unsigned> bits);

}  // namespace nibble::exporting

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/progress.h"
#include "export/export_model.h"

namespace nibble::exporting {

/// How well a format holds a storage. Codes and scales are transcoded, never quantized again.
struct Fit {
  enum class Kind {
    kExact,    ///< codes and values just as they are
    kRounded,  ///< codes as they are, some of their values rounded to 16 bits; `why` says which
    kFloats,   ///< what the format is for: decoded to floats
    kRefused,  ///< not at all: refused, or written as floats of 16 bits where the user says so (Rest::kFloat16)
  };
  Kind kind = Kind::kExact;
  std::string why;      ///< what it cannot hold: "a palette"
  std::string nearest;  ///< settings of a recipe that it can: "format: int4-block, group_size: 32"

  static Fit exact() { return {}; }
  static Fit rounded(std::string why) { return {Kind::kRounded, std::move(why), {}}; }
  static Fit refused(std::string why, std::string nearest) {
    return {Kind::kRefused, std::move(why), std::move(nearest)};
  }
};

/// What becomes of coded matrices that a format refuses.
enum class Rest { kRefuse, kFloat16 };

struct ExportOptions {
  Rest rest = Rest::kRefuse;
  std::optional<DType> dtype = {};          ///< of floats, for formats with Exporter::takes_dtype
  std::optional<std::string> layout = {};   ///< one of Exporter::layouts
  std::optional<std::size_t> context = {};  ///< positions of a text, for formats with Exporter::takes_context
  bool golden = false;                      ///< tokens and logits beside it, for formats with Exporter::write_golden
};

/// Matrices that stand together in one tensor of the output, in the order of ExportModel::parts().
struct ExportGroup {
  std::string name;
  std::vector<const ExportPart*> parts;
  bool as_floats = false;  ///< written as floats: they are floats, or the format refuses their storage
};

/// What is to be written, decided before anything is.
struct ExportPlan {
  const ExportModel& model;
  ExportOptions options;
  std::vector<ExportGroup> groups;       ///< every matrix is in one
  std::vector<std::size_t> group_index;  ///< for each of model.parts() which one

  /// The group that holds one of model.parts().
  const ExportGroup& group_of(const ExportPart& part) const;
};

/// What was written.
struct Written {
  std::uint64_t bytes = 0;        ///< of all tensors
  std::uint64_t linear_bits = 0;  ///< of the matrices of the blocks' linear layers, with their scales and zero points
  std::vector<std::string> notes = {};  ///< for the user: what programs make of it that the model does not
};

/// One format of another program. To add one: a file with its line, and a line of exporters().
struct Exporter {
  std::string_view name;         ///< "gguf"
  std::string_view programs;     ///< "llama.cpp and what reads its files"
  std::string_view suffix = {};  ///< of the output's name, for a single file (".gguf") or package; empty: a directory
  bool directory = true;         ///< the output is a directory, published whole
  bool takes_dtype = false, takes_context = false;
  std::span<const std::string_view> layouts = {};  ///< of ExportOptions::layout, the default first

  /// How it holds a storage (of a matrix with these extents, where they matter).
  Fit (*fit)(const Storage& storage) = nullptr;
  /// Throws InvalidArgument, naming block and setting, for networks that its programs do not know.
  void (*require_known)(const model::Architecture& architecture) = nullptr;
  /// What speaks against a bias of `layer`, for the user; empty where its programs add it. Null: they add all.
  std::string (*bias_objection)(const model::Architecture& architecture, const model::Parameter& layer) = nullptr;
  /// The name of the output's tensor that a matrix is part of: matrices of one name must be stored alike. Null: the
  /// tensor of the float checkpoint.
  std::string (*group_name)(const model::Architecture& architecture, const model::Parameter& parameter) = nullptr;
  /// Writes all of it to `output`: a file, or the files of a directory that is there. `source` is the checkpoint, for
  /// tokenizers and the like.
  Written (*write)(const ExportPlan& plan, const std::filesystem::path& output, const ProgressSink& progress) = nullptr;
  /// Reads it back through code of its own: what its values are in the terms of the architecture.
  std::unique_ptr<model::WeightProvider> (*read)(const std::filesystem::path& output,
                                                 const ExportModel& model) = nullptr;
  /// What stands beside `output` for ExportOptions::golden, and writing it; null: this format has no such thing.
  std::vector<std::filesystem::path> (*golden_files)(const std::filesystem::path& output) = nullptr;
  void (*write_golden)(const ExportModel& model, const ExportOptions& options,
                       const std::filesystem::path& output) = nullptr;
};

/// All formats, in the order of `nibble export --list`.
std::span<const Exporter* const> exporters();
/// Throws InvalidArgument with the names there are and the nearest.
const Exporter& find_exporter(std::string_view name);

// The lines, each defined in the file of its name.
extern const Exporter kDequantizedExporter;
extern const Exporter kGgufExporter;
extern const Exporter kMlxExporter;
extern const Exporter kCompressedTensorsExporter;
extern const Exporter kGptqExporter;
extern const Exporter kAwqExporter;
extern const Exporter kCoreMlExporter;

}  // namespace nibble::exporting

#include <compare>

#include "core/error.h"
#include "core/text/json.h"
#include "core/text/json_fields.h"
#include "export/coded_source.h"
#include "export/exporter.h"
#include "export/fused_layers.h"
#include "export/packed_rows.h"
#include "export/quantized_directory.h"

namespace nibble::exporting {
namespace compressed_tensors {
namespace {

// Source: the compressed-tensors package, format "pack-quantized", tried with version 0.20. A row is one stream of
// codes in words of 32 bits, of any width since version 0.18; zero points are a stream along the rows for each group;
// value = (code - zero) · scale, zero = 2^(bits-1) where none are stored.

constexpr unsigned kBits[] = {2, 3, 4, 5, 6, 7, 8};

Fit fit(const Storage& storage) {
  Fit integers = fit_integers(storage, kBits);
  if (integers.kind == Fit::Kind::kRefused) return integers;
  if (storage.role == model::Role::kEmbedding || storage.role == model::Role::kPositions)
    return Fit::refused("its programs quantize linear layers, but no embeddings", "format: float16 for this matrix");
  return Fit::exact();
}

// ---- writing

std::vector<CodedTensor> coded(const OutputMatrix& matrix, const ExportPlan&) {
  const Storage& storage = matrix.storage();
  const unsigned bits = storage.bits;
  const std::size_t group = storage.group(), groups = matrix.cols / group, rows = matrix.rows, cols = matrix.cols;
  std::vector<CodedTensor> tensors{
      {"weight_packed", DType::kI32, {rows, stream_words(cols, bits)}, write_streams},
      {"weight_scale",
       DType::kF16,
       {rows, groups},
       [=](const IntegerGrid& grid, const ByteSink& sink) { write_scales(grid, group, sink); }},
      {"weight_shape", DType::kI64, {2}, [=](const IntegerGrid&, const ByteSink& sink) {
         const std::int64_t shape[] = {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols)};
         sink(std::as_bytes(std::span(shape)));
       }}};
  if (storage.zero_points)
    tensors.push_back({"weight_zero_point",
                       DType::kI32,
                       {stream_words(rows, bits), groups},
                       [=](const IntegerGrid& grid, const ByteSink& sink) {
                         const Matrix<std::uint32_t> streams = zero_streams(grid, group, 0);
                         write_columns<std::uint32_t>(
                             groups, streams.cols(),
                             [&](std::size_t g, std::span<std::uint32_t> words) {
                               std::copy(streams.row(g).begin(), streams.row(g).end(), words.begin());
                             },
                             sink);
                       }});
  return tensors;
}

struct Scheme {
  unsigned bits = 4;
  std::size_t group_size = 0;  // 0: a scale for each row
  bool zero_points = false;
  auto operator<=>(const Scheme&) const = default;
};
Scheme scheme_of(const OutputMatrix& matrix) {
  const Storage& storage = matrix.storage();
  return {storage.bits, storage.group_size, storage.zero_points};
}

nlohmann::ordered_json json_of(const Scheme& scheme, nlohmann::ordered_json targets) {
  nlohmann::ordered_json weights{{"num_bits", scheme.bits},
                                 {"type", "int"},
                                 {"symmetric", !scheme.zero_points},
                                 {"strategy", scheme.group_size == 0 ? "channel" : "group"}};
  if (scheme.group_size != 0) weights["group_size"] = scheme.group_size;
  weights["dynamic"] = false;
  return {{"targets", std::move(targets)},
          {"weights", std::move(weights)},
          {"input_activations", nullptr},
          {"output_activations", nullptr}};
}

// The most frequent scheme goes for every linear layer, the others for modules by name, which wins over the class. But
// vLLM up to 0.24 takes the class before the parts of what it fuses: where a part has a scheme of its own, all modules
// stand by name.
void configure(nlohmann::ordered_json& config, const ExportPlan& plan, std::span<const OutputMatrix> matrices,
               std::span<const OutputMatrix> floats) {
  if (matrices.empty()) return;
  std::vector<Scheme> all;
  bool head = false;
  for (const OutputMatrix& matrix : matrices) {
    all.push_back(scheme_of(matrix));
    head = head || matrix.storage().role == model::Role::kHead;
  }
  const Scheme usual = most_frequent(all);
  std::map<Scheme, nlohmann::ordered_json> named;
  nlohmann::ordered_json usually = nlohmann::ordered_json::array();
  bool by_class = true;
  for (const OutputMatrix& matrix : matrices) {
    const Scheme scheme = scheme_of(matrix);
    (scheme == usual ? usually : named[scheme]).push_back(matrix.group->name);
    by_class = by_class && (scheme == usual || !fused_name(matrix));
  }
  nlohmann::ordered_json groups;
  groups["group_0"] = json_of(usual, by_class ? nlohmann::ordered_json{"Linear"} : std::move(usually));
  for (const auto& [scheme, modules] : named) groups[fmt::format("group_{}", groups.size())] = json_of(scheme, modules);
  nlohmann::ordered_json ignore = nlohmann::ordered_json::array();
  for (const OutputMatrix& matrix : floats)
    if (is_block_linear(matrix)) ignore.push_back(matrix.group->name);
  if (!head) ignore.push_back(plan.model.architecture().head.module_of_files);
  config["quantization_config"] = {
      {"quant_method", "compressed-tensors"}, {"format", "pack-quantized"},
      {"quantization_status", "compressed"},  {"version", "0.18.0"},  // the first with codes of any width as one stream
      {"global_compression_ratio", nullptr},  {"kv_cache_scheme", nullptr},
      {"config_groups", std::move(groups)},   {"ignore", std::move(ignore)}};
}

// ---- reading

bool has_target(const nlohmann::json& group, const std::string& target) {
  if (!group.is_object() || !group.contains("targets") || !group.at("targets").is_array()) return false;
  const auto& targets = group.at("targets");
  return std::find(targets.begin(), targets.end(), target) != targets.end();
}

// The group of settings that goes for a module: one that names it, else the one for all linear layers.
const nlohmann::json& group_for(const nlohmann::json& groups, const std::string& module) {
  for (const std::string& target : {module, std::string("Linear")})
    for (const auto& group : groups)
      if (has_target(group, target)) return group;
  throw FormatError(fmt::format("config.json: config_groups: none has '{}' among its targets", module));
}

// Zero points (groups, rows) from a stream along the rows for each group, stored (words, groups).
Matrix<std::uint8_t> zeros_of(const model::TensorView& packed, std::size_t rows, unsigned bits) {
  const std::size_t words = packed.shape[0], groups = packed.shape[1];
  Matrix<std::uint8_t> zeros(groups, rows);
  std::vector<std::uint32_t> stream(words);
  for (std::size_t g = 0; g < groups; ++g) {
    for (std::size_t w = 0; w < words; ++w) stream[w] = element<std::uint32_t>(packed, w * groups + g);
    read_stream(stream, bits, zeros.row(g));
  }
  return zeros;
}

std::shared_ptr<const WeightSource> source(const std::shared_ptr<const model::Checkpoint>& checkpoint,
                                           const nlohmann::json& config, const WantedMatrix& wanted) {
  const JsonFields all(config, "config.json");
  const JsonFields fields(all.at("quantization_config", "an object"), "config.json: quantization_config");
  fields.require_one_of("quant_method", {"compressed-tensors"});
  fields.require_one_of("format", {"pack-quantized"});
  const nlohmann::json& group_json = group_for(fields.at("config_groups", "an object of groups"), wanted.module);
  const JsonFields group_fields(group_json, "config.json: the settings of " + wanted.module);
  const JsonFields weights(group_fields.at("weights", "an object"), group_fields.what());
  weights.require_one_of("type", {"int"});
  weights.require_one_of("strategy", {"group", "channel"});
  const auto bits = static_cast<unsigned>(weights.integer("num_bits", 1, 8));
  const std::size_t group =
      weights.text("strategy") == "channel" ? wanted.cols : weights.integer("group_size", 1, wanted.cols);
  NIBBLE_REQUIRE(wanted.cols % group == 0, FormatError, "'{}': rows of {} inputs are no multiple of {}", wanted.module,
                 wanted.cols, group);
  const std::size_t groups = wanted.cols / group, rows = wanted.rows;
  constexpr DType kWords[] = {DType::kI32};
  constexpr DType kLongs[] = {DType::kI64};
  constexpr DType kHalves[] = {DType::kF16};
  const auto tensor = [&](const char* suffix, std::span<const DType> dtypes, std::vector<std::uint64_t> shape) {
    return require_tensor(*checkpoint, wanted.module + suffix, dtypes, shape);
  };
  const model::TensorView shape = tensor(".weight_shape", kLongs, {2});
  NIBBLE_REQUIRE(element<std::int64_t>(shape, 0) == static_cast<std::int64_t>(rows) &&
                     element<std::int64_t>(shape, 1) == static_cast<std::int64_t>(wanted.cols),
                 FormatError, "'{}': expected ({}, {}) after config.json, got ({}, {})", shape.name, rows, wanted.cols,
                 element<std::int64_t>(shape, 0), element<std::int64_t>(shape, 1));
  Matrix<std::uint8_t> zeros(groups, rows);
  if (weights.boolean("symmetric")) {
    std::fill(zeros.values().begin(), zeros.values().end(), static_cast<std::uint8_t>(1u << (bits - 1)));
  } else {
    zeros = zeros_of(tensor(".weight_zero_point", kWords, {stream_words(rows, bits), groups}), rows, bits);
  }
  return make_row_stream_source(checkpoint, wanted.cols, bits,
                                tensor(".weight_packed", kWords, {rows, stream_words(wanted.cols, bits)}),
                                tensor(".weight_scale", kHalves, {rows, groups}), std::nullopt, std::move(zeros));
}

// ---- the line

constexpr DirectoryFormat kCompressedTensorsFormat{
    .families = kCompressedTensorsFamilies, .coded = coded, .configure = configure};
constexpr DirectoryReading kCompressedTensorsReading{
    .families = kCompressedTensorsFamilies, .mark = "weight_packed", .source = source};

}  // namespace
}  // namespace compressed_tensors

constinit const Exporter kCompressedTensorsExporter =
    directory_exporter<compressed_tensors::kCompressedTensorsFormat, compressed_tensors::kCompressedTensorsReading>(
        "compressed-tensors",
        "transformers and vLLM (tried: transformers 5.23, compressed-tensors 0.20, with zero points only where "
        "it is told to dequantize; vLLM 0.24)",
        compressed_tensors::fit);

}  // namespace nibble::exporting

#include <array>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/text/json.h"
#include "core/text/json_fields.h"
#include "export/coded_source.h"
#include "export/exporter.h"
#include "export/mlx_network.h"
#include "export/packed_rows.h"
#include "export/quantized_directory.h"

namespace nibble::exporting {
namespace mlx {
namespace {

// Source: mlx-lm's loader and mlx's affine mode, tried with versions 0.32; a row is one stream of codes in words of 32
// bits, value = code · scale + bias. Blocks without zero points have bias = -2^(bits-1) · scale, exact in float16. With
// them it is -zero · scale, whose up to 19 bits want float32.

constexpr unsigned kBits[] = {2, 3, 4, 5, 6, 8};
constexpr std::array<std::size_t, 3> kGroups{128, 64, 32};  // the only ones

// The longest group of which the blocks of these rows consist, 0 where there is none.
std::size_t mlx_group(const Storage& storage) {
  for (const std::size_t group : kGroups)
    if (storage.cols % group == 0 && (storage.group_size == 0 || storage.group_size % group == 0)) return group;
  return 0;
}

Fit fit(const Storage& storage) {
  Fit integers = fit_integers(storage, kBits);
  if (integers.kind == Fit::Kind::kRefused) return integers;
  if (storage.corrected)
    return Fit::refused("it has routers with a correction as floats alone", "format: float16 for this matrix");
  if (storage.cols % kGroups.back() != 0)
    return Fit::refused(fmt::format("rows of {} inputs are no multiple of its smallest group, 32", storage.cols),
                        "format: float16 for this matrix");
  if (mlx_group(storage) == 0)
    return Fit::refused(
        fmt::format("blocks of {} inputs are not made of its groups of 32, 64 or 128", storage.group_size),
        "group_size: 32");
  return Fit::exact();
}

// ---- writing

// The same values as floats of 32 bits.
void write_wide_scales(const IntegerGrid& grid, std::size_t group, const ByteSink& sink) {
  const std::size_t groups = grid.cols() / group;
  write_rows(
      grid.rows(), groups * sizeof(float),
      [&](std::size_t row, std::span<std::byte> bytes) {
        std::vector<std::uint16_t> scales(groups);
        std::vector<float> values(groups);
        grid.scales(row, group, scales);
        convert_to_f32(DType::kF16, std::as_bytes(std::span(scales)).data(), groups, values.data());
        std::memcpy(bytes.data(), values.data(), bytes.size());
      },
      sink);
}

void write_biases(const IntegerGrid& grid, std::size_t group, bool wide, const std::string& name,
                  const ByteSink& sink) {
  const std::size_t groups = grid.cols() / group;
  write_rows(
      grid.rows(), groups * (wide ? sizeof(float) : sizeof(std::uint16_t)),
      [&](std::size_t row, std::span<std::byte> bytes) {
        std::vector<std::uint16_t> scales(groups);
        std::vector<std::uint8_t> zeros(groups);
        std::vector<float> biases(groups);
        grid.scales(row, group, scales);
        grid.zeros(row, group, zeros);
        for (std::size_t i = 0; i < groups; ++i) biases[i] = -static_cast<float>(zeros[i]) * f16_to_f32(scales[i]);
        if (wide) {
          std::memcpy(bytes.data(), biases.data(), bytes.size());
          return;
        }
        convert_to_f16(biases, scales.data());
        for (std::size_t i = 0; i < groups; ++i)
          NIBBLE_REQUIRE(std::isfinite(f16_to_f32(scales[i])), NumericalError,
                         "{}: row {}: the least value of block {}, {}, is too large for float16 (at most 65504)", name,
                         row, i, biases[i]);
        std::memcpy(bytes.data(), scales.data(), bytes.size());
      },
      sink);
}

std::vector<CodedTensor> coded(const OutputMatrix& matrix, const ExportPlan&) {
  const Storage& storage = matrix.storage();
  const std::size_t group = mlx_group(storage), groups = matrix.cols / group;
  const bool wide = storage.zero_points;
  const DType dtype = wide ? DType::kF32 : DType::kF16;
  const std::string& name = matrix.group->name;
  return {{"weight", DType::kU32, {matrix.rows, stream_words(matrix.cols, storage.bits)}, write_streams},
          {"scales",
           dtype,
           {matrix.rows, groups},
           [=](const IntegerGrid& grid, const ByteSink& sink) {
             wide ? write_wide_scales(grid, group, sink) : write_scales(grid, group, sink);
           }},
          {"biases", dtype, {matrix.rows, groups}, [=](const IntegerGrid& grid, const ByteSink& sink) {
             write_biases(grid, group, wide, name, sink);
           }}};
}

using Settings = std::pair<unsigned, std::size_t>;  // bits, group
Settings settings_of(const OutputMatrix& matrix) { return {matrix.storage().bits, mlx_group(matrix.storage())}; }

nlohmann::ordered_json json_of(const Settings& settings) {
  return {{"group_size", settings.second}, {"bits", settings.first}, {"mode", "affine"}};
}

void configure(nlohmann::ordered_json& config, const ExportPlan& plan, std::span<const OutputMatrix> matrices,
               std::span<const OutputMatrix>) {
  state_mlx_network(config, plan.model.architecture());
  if (matrices.empty()) return;
  std::vector<Settings> all;
  for (const OutputMatrix& matrix : matrices) all.push_back(settings_of(matrix));
  const Settings usual = most_frequent(all);
  nlohmann::ordered_json quantization = json_of(usual);
  for (const OutputMatrix& matrix : matrices)
    if (settings_of(matrix) != usual) quantization[matrix.group->name] = json_of(settings_of(matrix));
  config["quantization"] = quantization;
  config["quantization_config"] = quantization;
}

// ---- reading

std::shared_ptr<const WeightSource> source(const std::shared_ptr<const model::Checkpoint>& checkpoint,
                                           const nlohmann::json& config, const WantedMatrix& wanted) {
  const JsonFields fields(config, "config.json");
  const nlohmann::json& usual = fields.at("quantization", "an object");
  const JsonFields quantization(usual.is_object() && usual.contains(wanted.module) ? usual.at(wanted.module) : usual,
                                "config.json: quantization of " + wanted.module);
  quantization.require_one_of("mode", {"affine"});
  const auto bits = static_cast<unsigned>(quantization.integer("bits", 2, 8));
  const std::size_t group = quantization.integer("group_size", 32, 128);
  NIBBLE_REQUIRE(wanted.cols % group == 0, FormatError, "'{}': rows of {} inputs are no multiple of {}", wanted.module,
                 wanted.cols, group);
  constexpr DType kWords[] = {DType::kU32};
  constexpr DType kFloats[] = {DType::kF16, DType::kF32};
  const auto tensor = [&](const char* suffix, std::span<const DType> dtypes, std::size_t width) {
    return require_tensor(*checkpoint, wanted.module + suffix, dtypes, {wanted.rows, width}, wanted.slices,
                          wanted.slice);
  };
  return make_row_stream_source(
      checkpoint, wanted.cols, bits, tensor(".weight", kWords, stream_words(wanted.cols, bits)),
      tensor(".scales", kFloats, wanted.cols / group), tensor(".biases", kFloats, wanted.cols / group));
}

// ---- the line

constexpr DirectoryFormat kMlxFormat{.families = kMlxFamilies,
                                     .metadata = "mlx",
                                     .out_in = true,
                                     .coded = coded,
                                     .configure = configure,
                                     .notes = mlx_notes,
                                     .lacks_bias = mlx_lacks_bias};
constexpr DirectoryReading kMlxReading{.families = kMlxFamilies, .out_in = true, .mark = "scales", .source = source};

}  // namespace
}  // namespace mlx

constinit const Exporter kMlxExporter = directory_exporter<mlx::kMlxFormat, mlx::kMlxReading>(
    "mlx", "mlx-lm on Apple's processors (tried: mlx 0.32.4, mlx-lm 0.32.2)", mlx::fit);

}  // namespace nibble::exporting

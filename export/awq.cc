#include <algorithm>
#include <array>
#include <numeric>

#include "core/error.h"
#include "core/text/json.h"
#include "core/text/json_fields.h"
#include "export/coded_source.h"
#include "export/exporter.h"
#include "export/packed_rows.h"
#include "export/quantized_directory.h"

namespace nibble::exporting {
namespace awq {
namespace {

// Source: AutoAWQ's layout "gemm", tried with gptqmodel 7.7. Word (k, i) of qweight (in, out / 8) holds the codes of
// input k for outputs 8i … 8i + 7, nibble j that of output 8i + kOrder[j]; qzeros (groups, out / 8) alike. One group
// size for all layers: scales of longer blocks are repeated.

constexpr unsigned kBits[] = {4};
constexpr std::size_t kGroups[] = {16, 32, 64, 128};  // and whole rows
constexpr std::size_t kOutputs = 8;                   // of a word
constexpr std::array<std::size_t, kOutputs> kOrder{0, 2, 4, 6, 1, 3, 5, 7};

Fit fit(const Storage& storage) {
  Fit integers = fit_integers(storage, kBits);
  if (integers.kind == Fit::Kind::kRefused) return integers;
  if (storage.role == model::Role::kEmbedding || storage.role == model::Role::kPositions ||
      storage.role == model::Role::kHead)
    return Fit::refused("it quantizes the linear layers of blocks alone", "format: float16 for this matrix");
  if (storage.group_size % kGroups[0] != 0)
    return Fit::refused(
        fmt::format("blocks of {} inputs are not made of its groups of 16, 32, 64 or 128", storage.group_size),
        "group_size: 32");
  if (storage.rows % kOutputs != 0)
    return Fit::refused(fmt::format("{} outputs are no multiple of the 8 of a word", storage.rows),
                        "format: float16 for this matrix");
  return Fit::exact();
}

// ---- writing

// The longest group of which all blocks of `plan` consist; 0, whole rows, where all blocks are.
std::size_t common_group(const ExportPlan& plan) {
  std::size_t common = 0;
  bool rows = false;
  for (const ExportGroup& group : plan.groups)
    if (!group.as_floats) {
      const Storage& storage = group.parts.front()->storage;
      common = std::gcd(common, storage.group_size);
      rows = rows || storage.group_size == 0;
    }
  if (common == 0) return 0;
  if (rows)
    for (const ExportGroup& group : plan.groups)
      if (!group.as_floats) common = std::gcd(common, group.parts.front()->storage.cols);
  const auto longest =
      std::find_if(std::rbegin(kGroups), std::rend(kGroups), [&](std::size_t group) { return common % group == 0; });
  NIBBLE_REQUIRE(longest != std::rend(kGroups), InvalidArgument,
                 "awq: it has one group size for all layers, and the blocks of these have none of 16, 32, 64 and 128 "
                 "inputs in common; quantize them with one group_size");
  return *longest;
}

// Fills words (8 outputs each) along the other dimension, (width), from eight rows of small numbers.
void interleave(std::span<const std::uint8_t> rows, std::size_t width, std::span<std::uint32_t> words) {
  for (std::size_t k = 0; k < width; ++k) {
    std::uint32_t word = 0;
    for (std::size_t j = 0; j < kOutputs; ++j)
      word |= static_cast<std::uint32_t>(rows[kOrder[j] * width + k]) << (4 * j);
    words[k] = word;
  }
}

void write_codes(const IntegerGrid& grid, const ByteSink& sink) {
  write_columns<std::uint32_t>(
      grid.rows() / kOutputs, grid.cols(),
      [&](std::size_t block, std::span<std::uint32_t> words) {
        std::vector<std::uint8_t> codes(kOutputs * grid.cols());
        for (std::size_t i = 0; i < kOutputs; ++i)
          grid.codes(block * kOutputs + i, std::span(codes).subspan(i * grid.cols(), grid.cols()));
        interleave(codes, grid.cols(), words);
      },
      sink);
}

void write_zeros(const IntegerGrid& grid, std::size_t group, const ByteSink& sink) {
  const std::size_t groups = grid.cols() / group;
  write_columns<std::uint32_t>(
      grid.rows() / kOutputs, groups,
      [&](std::size_t block, std::span<std::uint32_t> words) {
        std::vector<std::uint8_t> zeros(kOutputs * groups);
        for (std::size_t i = 0; i < kOutputs; ++i)
          grid.zeros(block * kOutputs + i, group, std::span(zeros).subspan(i * groups, groups));
        interleave(zeros, groups, words);
      },
      sink);
}

std::vector<CodedTensor> coded(const OutputMatrix& matrix, const ExportPlan& plan) {
  const std::size_t common = common_group(plan), group = common == 0 ? matrix.cols : common;
  const std::size_t groups = matrix.cols / group, words = matrix.rows / kOutputs;
  return {{"qweight", DType::kI32, {matrix.cols, words}, write_codes},
          {"qzeros",
           DType::kI32,
           {groups, words},
           [=](const IntegerGrid& grid, const ByteSink& sink) { write_zeros(grid, group, sink); }},
          {"scales", DType::kF16, {groups, matrix.rows}, [=](const IntegerGrid& grid, const ByteSink& sink) {
             write_transposed_scales(grid, group, sink);
           }}};
}

void configure(nlohmann::ordered_json& config, const ExportPlan& plan, std::span<const OutputMatrix> matrices,
               std::span<const OutputMatrix> floats) {
  if (matrices.empty()) return;
  nlohmann::ordered_json plain = nlohmann::ordered_json::array();
  for (const OutputMatrix& matrix : floats)
    if (is_block_linear(matrix)) plain.push_back(matrix.group->name);
  plain.push_back(plan.model.architecture().head.module_of_files);
  const std::size_t group = common_group(plan);
  config["quantization_config"] = {
      {"quant_method", "awq"}, {"bits", 4},         {"group_size", group == 0 ? -1 : static_cast<std::int64_t>(group)},
      {"zero_point", true},    {"version", "gemm"}, {"modules_to_not_convert", std::move(plain)}};
}

// ---- reading

class AwqSource final : public CodedSource {
 public:
  AwqSource(std::shared_ptr<const model::Checkpoint> checkpoint, const WantedMatrix& wanted,
            std::vector<model::TensorView> views)
      : CodedSource(std::move(checkpoint), views, wanted.rows, wanted.cols, views[2].shape[0]),
        views_(std::move(views)) {}

 private:
  // The nibble of output `row` in a tensor (…, rows / 8): even outputs of a word come first, then the odd ones.
  std::uint8_t nibble(const model::TensorView& view, std::size_t line, std::size_t row) const {
    const auto word = element<std::uint32_t>(view, line * (rows() / 8) + row / 8);
    const std::size_t place = row % 2 * 4 + row % 8 / 2;
    return static_cast<std::uint8_t>(word >> (4 * place) & 15u);
  }
  void codes(std::size_t begin, std::size_t end, std::span<std::uint8_t> codes) const override {
    for (std::size_t k = 0; k < cols(); ++k)
      for (std::size_t i = begin; i < end; ++i) codes[(i - begin) * cols() + k] = nibble(views_[0], k, i);
  }
  void affine(std::size_t row, std::span<float> scales, std::span<float> offsets) const override {
    for (std::size_t g = 0; g < groups(); ++g) {
      scales[g] = f16_to_f32(element<std::uint16_t>(views_[2], g * rows() + row));
      offsets[g] = -static_cast<float>(nibble(views_[1], g, row)) * scales[g];
    }
  }

  std::vector<model::TensorView> views_;  // qweight, qzeros, scales
};

std::shared_ptr<const WeightSource> source(const std::shared_ptr<const model::Checkpoint>& checkpoint,
                                           const nlohmann::json& config, const WantedMatrix& wanted) {
  const JsonFields all(config, "config.json");
  const JsonFields fields(all.at("quantization_config", "an object"), "config.json: quantization_config");
  fields.require_one_of("quant_method", {"awq"});
  fields.require_one_of("version", {"gemm"});
  (void)fields.integer("bits", 4, 4);
  const std::size_t group = group_size_of(fields, wanted.cols);
  NIBBLE_REQUIRE(wanted.cols % group == 0 && wanted.rows % 8 == 0, FormatError,
                 "'{}': ({}, {}) does not consist of words of 8 outputs and groups of {} inputs", wanted.module,
                 wanted.rows, wanted.cols, group);
  constexpr DType kWords[] = {DType::kI32};
  constexpr DType kHalves[] = {DType::kF16};
  const std::size_t groups = wanted.cols / group, words = wanted.rows / 8;
  const auto tensor = [&](const char* suffix, std::span<const DType> dtypes, std::vector<std::uint64_t> shape) {
    return require_tensor(*checkpoint, wanted.module + suffix, dtypes, shape);
  };
  return std::make_shared<AwqSource>(
      checkpoint, wanted,
      std::vector{tensor(".qweight", kWords, {wanted.cols, words}), tensor(".qzeros", kWords, {groups, words}),
                  tensor(".scales", kHalves, {groups, wanted.rows})});
}

// ---- the line

constexpr DirectoryFormat kAwqFormat{.families = kAwqFamilies, .coded = coded, .configure = configure};
constexpr DirectoryReading kAwqReading{.families = kAwqFamilies, .mark = "qweight", .source = source};

}  // namespace
}  // namespace awq

constinit const Exporter kAwqExporter = directory_exporter<awq::kAwqFormat, awq::kAwqReading>(
    "awq", "gptqmodel, transformers, vLLM (tried: gptqmodel 7.7, vLLM 0.24)", awq::fit);

}  // namespace nibble::exporting

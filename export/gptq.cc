#include <algorithm>
#include <compare>
#include <map>
#include <optional>

#include "core/error.h"
#include "core/text/json.h"
#include "core/text/json_fields.h"
#include "export/coded_source.h"
#include "export/exporter.h"
#include "export/fused_layers.h"
#include "export/packed_rows.h"
#include "export/quantized_directory.h"

namespace nibble::exporting {
namespace gptq {
namespace {

// Source: gptqmodel 7.7, whose loader and kernels were tried. Column n of qweight (words, out) is the stream of row n's
// codes; row g of qzeros the stream of the zero points of group g, all of them less one in version 1, which therefore
// cannot say 0: it is written where no matrix has zero points of its own. g_idx says which group an input is in; blocks
// are of inputs that follow each other here, in whatever order they were quantized (act_order), so it is j / group and
// desc_act is false.

constexpr unsigned kBits[] = {2, 3, 4, 8};

Fit fit(const Storage& storage) {
  Fit integers = fit_integers(storage, kBits);
  if (integers.kind == Fit::Kind::kRefused) return integers;
  if (storage.role == model::Role::kEmbedding || storage.role == model::Role::kPositions)
    return Fit::refused("it quantizes linear layers, but no embeddings", "format: float16 for this matrix");
  if (storage.cols * storage.bits % 32 != 0 || storage.rows * storage.bits % 32 != 0)
    return Fit::refused(fmt::format("a matrix of {} by {} codes of {} bits does not fill words of 32 bits",
                                    storage.rows, storage.cols, storage.bits),
                        "format: float16 for this matrix");
  return Fit::exact();
}

// ---- writing

std::vector<CodedTensor> coded(const OutputMatrix& matrix, const ExportPlan& plan) {
  const Storage& storage = matrix.storage();
  const unsigned bits = storage.bits, less = has_zero_points(plan) ? 0 : 1;
  const std::size_t group = storage.group(), groups = matrix.cols / group;
  return {{"qweight", DType::kI32, {stream_words(matrix.cols, bits), matrix.rows}, write_transposed_streams},
          {"qzeros",
           DType::kI32,
           {groups, stream_words(matrix.rows, bits)},
           [=](const IntegerGrid& grid, const ByteSink& sink) {
             sink(std::as_bytes(zero_streams(grid, group, less).values()));
           }},
          {"scales",
           DType::kF16,
           {groups, matrix.rows},
           [=](const IntegerGrid& grid, const ByteSink& sink) { write_transposed_scales(grid, group, sink); }},
          {"g_idx", DType::kI32, {matrix.cols}, [=](const IntegerGrid& grid, const ByteSink& sink) {
             std::vector<std::int32_t> index(grid.cols());
             for (std::size_t j = 0; j < index.size(); ++j) index[j] = static_cast<std::int32_t>(j / group);
             sink(std::as_bytes(std::span(index)));
           }}};
}

struct Settings {
  unsigned bits = 4;
  std::int64_t group_size = -1;  // -1: the whole row
  auto operator<=>(const Settings&) const = default;
};
Settings settings_of(const OutputMatrix& matrix) {
  const Storage& storage = matrix.storage();
  return {storage.bits, storage.group_size == 0 ? -1 : static_cast<std::int64_t>(storage.group_size)};
}

// The regular expression for exactly this module.
std::string pattern_of(const std::string& module) {
  std::string pattern = "^";
  for (const char c : module) {
    if (c == '.') pattern += '\\';
    pattern += c;
  }
  return pattern + "$";
}

void configure(nlohmann::ordered_json& config, const ExportPlan&, std::span<const OutputMatrix> matrices,
               std::span<const OutputMatrix> floats) {
  if (matrices.empty()) return;
  std::vector<Settings> all;
  bool zero_points = false, head = false;
  for (const OutputMatrix& matrix : matrices) {
    all.push_back(settings_of(matrix));
    zero_points = zero_points || matrix.storage().zero_points;
    head = head || matrix.storage().role == model::Role::kHead;
  }
  const Settings usual = most_frequent(all);
  nlohmann::ordered_json dynamic = nlohmann::ordered_json::object();
  const auto add = [&](const std::string& module, const std::optional<Settings>& settings) {
    if (!settings) {
      dynamic["-:" + pattern_of(module)] = nlohmann::ordered_json::object();
    } else if (*settings != usual) {
      dynamic["+:" + pattern_of(module)] = {{"bits", settings->bits}, {"group_size", settings->group_size}};
    }
  };
  std::map<const OutputMatrix*, std::optional<Settings>> of;  // nothing: floats
  for (const OutputMatrix& matrix : matrices) add(matrix.group->name, of[&matrix] = settings_of(matrix));
  for (const OutputMatrix& matrix : floats)
    if (is_block_linear(matrix)) add(matrix.group->name, of[&matrix] = std::nullopt);
  // vLLM asks for what it fuses, and for no part of it.
  for (const FusedLayer& layer : fused_layers(matrices, floats))
    if (std::ranges::all_of(layer.members, [&](const OutputMatrix* part) { return of[part] == of[layer.members[0]]; }))
      add(layer.name, of[layer.members[0]]);
  config["quantization_config"] = {{"quant_method", "gptq"},
                                   {"bits", usual.bits},
                                   {"group_size", usual.group_size},
                                   {"sym", !zero_points},
                                   {"desc_act", false},
                                   {kGptqHeadKey, head},
                                   {"checkpoint_format", zero_points ? "gptq_v2" : "gptq"}};
  if (!dynamic.empty()) config["quantization_config"]["dynamic"] = dynamic;
}

// ---- reading

class GptqSource final : public CodedSource {
 public:
  GptqSource(std::shared_ptr<const model::Checkpoint> checkpoint, const WantedMatrix& wanted, unsigned bits,
             unsigned zero_offset, std::vector<model::TensorView> views)
      : CodedSource(std::move(checkpoint), views, wanted.rows, wanted.cols, views[2].shape[0]),
        bits_(bits),
        qweight_(views[0]),
        scales_(views[2]),
        group_(wanted.cols),
        zeros_(groups(), wanted.rows) {
    for (std::size_t j = 0; j < group_.size(); ++j) {
      const auto group = element<std::int32_t>(views[3], j);
      NIBBLE_REQUIRE(group >= 0 && static_cast<std::size_t>(group) < groups(), FormatError,
                     "'{}': g_idx: input {} is in group {} of {}", wanted.module, j, group, groups());
      group_[j] = static_cast<std::uint32_t>(group);
    }
    const std::size_t width = views[1].shape[1];
    std::vector<std::uint32_t> words(width);
    std::vector<std::uint8_t> codes(wanted.rows);
    for (std::size_t g = 0; g < groups(); ++g) {
      for (std::size_t i = 0; i < width; ++i) words[i] = element<std::uint32_t>(views[1], g * width + i);
      read_stream(words, bits, codes);
      for (std::size_t i = 0; i < wanted.rows; ++i) zeros_(g, i) = static_cast<float>(codes[i] + zero_offset);
    }
  }

 private:
  void codes(std::size_t begin, std::size_t end, std::span<std::uint8_t> codes) const override {
    const std::size_t width = qweight_.shape[0], count = end - begin;
    Matrix<std::uint32_t> words(count, width);
    for (std::size_t w = 0; w < width; ++w)
      for (std::size_t i = 0; i < count; ++i) words(i, w) = element<std::uint32_t>(qweight_, w * rows() + begin + i);
    for (std::size_t i = 0; i < count; ++i) read_stream(words.row(i), bits_, codes.subspan(i * cols(), cols()));
  }
  void affine(std::size_t row, std::span<float> scales, std::span<float> offsets) const override {
    for (std::size_t g = 0; g < groups(); ++g) {
      scales[g] = f16_to_f32(element<std::uint16_t>(scales_, g * rows() + row));
      offsets[g] = -zeros_(g, row) * scales[g];
    }
  }
  std::size_t group_of(std::size_t col) const override { return group_[col]; }

  unsigned bits_;
  model::TensorView qweight_, scales_;
  std::vector<std::uint32_t> group_;
  Matrix<float> zeros_;
};

std::shared_ptr<const WeightSource> source(const std::shared_ptr<const model::Checkpoint>& checkpoint,
                                           const nlohmann::json& config, const WantedMatrix& wanted) {
  const JsonFields all(config, "config.json");
  const JsonFields fields = all.object("quantization_config");
  fields.require_one_of("quant_method", {"gptq"});
  fields.require_one_of("checkpoint_format", {"gptq", "gptq_v2"});
  const bool second = fields.text("checkpoint_format") == "gptq_v2";
  const nlohmann::json& base = config.at("quantization_config");
  const std::string key = "+:" + pattern_of(wanted.module);
  const bool own = base.contains("dynamic") && base.at("dynamic").contains(key);
  const JsonFields settings(own ? base.at("dynamic").at(key) : base, "config.json: settings of " + wanted.module);
  const auto bits = static_cast<unsigned>(settings.integer("bits", 2, 8));
  const std::size_t group = group_size_of(settings, wanted.cols);
  const std::size_t groups = wanted.cols / group + (wanted.cols % group != 0 ? 1 : 0);
  constexpr DType kWords[] = {DType::kI32};
  constexpr DType kHalves[] = {DType::kF16};
  const auto tensor = [&](const char* suffix, std::span<const DType> dtypes, std::vector<std::uint64_t> shape) {
    return require_tensor(*checkpoint, wanted.module + suffix, dtypes, shape);
  };
  return std::make_shared<GptqSource>(
      checkpoint, wanted, bits, second ? 0 : 1,
      std::vector{tensor(".qweight", kWords, {stream_words(wanted.cols, bits), wanted.rows}),
                  tensor(".qzeros", kWords, {groups, stream_words(wanted.rows, bits)}),
                  tensor(".scales", kHalves, {groups, wanted.rows}), tensor(".g_idx", kWords, {wanted.cols})});
}

// ---- the line

constexpr DirectoryFormat kGptqFormat{.families = kGptqFamilies, .coded = coded, .configure = configure};
constexpr DirectoryReading kGptqReading{.families = kGptqFamilies, .mark = "qweight", .source = source};

}  // namespace
}  // namespace gptq

constinit const Exporter kGptqExporter = directory_exporter<gptq::kGptqFormat, gptq::kGptqReading>(
    "gptq", "gptqmodel, transformers, vLLM (tried: gptqmodel 7.7, transformers 5.23; vLLM 0.24, without zero points)",
    gptq::fit);

}  // namespace nibble::exporting

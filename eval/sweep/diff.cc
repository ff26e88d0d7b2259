#include "eval/sweep/diff.h"

#include <algorithm>
#include <limits>
#include <map>
#include <span>

#include "core/error.h"
#include "core/files/output_file.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/error_sum.h"
#include "core/matrix/matrix_view.h"
#include "core/text/json.h"
#include "core/text/strict_json.h"
#include "model/architecture/architecture.h"
#include "model/open/open_model.h"
#include "quant/store/load_model.h"
#include "quant/store/model_weights.h"

namespace nibble::eval {
namespace {

using Json = nlohmann::ordered_json;

// {"defaults": {"bits": 3}, "layers": [{"match": "x"}]} -> ("recipe.defaults.bits", "3"), …
void flatten(const std::string& name, const Json& json, Facts& facts) {
  if (json.is_structured() && !json.empty() && (json.is_object() || json[0].is_structured())) {
    std::size_t index = 0;
    for (const auto& [key, value] : json.items())
      flatten(json.is_object() ? name + "." + key : fmt::format("{}[{}]", name, index++), value, facts);
    return;
  }
  facts.emplace_back(name, json.is_string() ? json.get<std::string>() : json.dump());
}

Facts flattened(const Facts& values) {
  Facts facts;
  for (const auto& [name, text] : values) {
    const Json json = Json::parse(text, nullptr, false);
    flatten(name, json.is_discarded() ? Json(text) : json, facts);
  }
  return facts;
}

void add_settings(const Facts& a, const Facts& b, std::vector<SettingDiff>& differences) {
  for (const auto& [name, value] : a)
    if (const std::string_view other = fact(b, name); value != other)
      differences.push_back({name, value, std::string(other)});
  for (const auto& [name, value] : b)
    if (std::none_of(a.begin(), a.end(), [&, key = name](const auto& entry) { return entry.first == key; }))
      differences.push_back({name, "", value});
}

std::vector<MeasureDiff> measures_of(const CellMeasures& a, const CellMeasures& b) {
  std::vector<MeasureDiff> measures;
  if (a.tokens_scored > 0 && b.tokens_scored > 0)  // else of speed
    measures = {{"perplexity", a.perplexity, b.perplexity},
                {"nll_nats_per_token", a.nll_nats_per_token, b.nll_nats_per_token}};
  if (a.bits_per_byte && b.bits_per_byte) measures.push_back({"bits_per_byte", *a.bits_per_byte, *b.bits_per_byte});
  if (a.divergence && b.divergence)
    measures.push_back({"divergence_nats_per_token", a.divergence->nats_per_token, b.divergence->nats_per_token});
  measures.push_back({"bits_per_weight", a.bits_per_weight, b.bits_per_weight});
  measures.push_back({"model_bits_per_weight", a.model_bits_per_weight, b.model_bits_per_weight});
  measures.push_back({"model_bytes", static_cast<double>(a.model_bytes), static_cast<double>(b.model_bytes)});
  return measures;
}

void add_speeds(const std::vector<SpeedRecord>& a, const std::vector<SpeedRecord>& b,
                std::vector<MeasureDiff>& measures) {
  for (const SpeedRecord& speed : a) {
    const auto other = std::find_if(b.begin(), b.end(),
                                    [&](const SpeedRecord& candidate) { return candidate.context == speed.context; });
    if (other == b.end()) continue;
    measures.push_back({fmt::format("tokens_per_second at {}", speed.context), speed.tokens_per_second.median,
                        other->tokens_per_second.median});
    measures.push_back({fmt::format("first_token_seconds at {}", speed.context), speed.first_token_seconds.median,
                        other->first_token_seconds.median});
  }
}

LayerDiff& layer_called(const std::string& name, std::vector<LayerDiff>& layers) {
  const auto found =
      std::find_if(layers.begin(), layers.end(), [&](const LayerDiff& layer) { return layer.name == name; });
  if (found != layers.end()) return *found;
  layers.push_back({.name = name,
                    .bits_a = {},
                    .bits_b = {},
                    .error_a = {},
                    .error_b = {},
                    .fisher_a = {},
                    .fisher_b = {},
                    .output_a = {},
                    .output_b = {},
                    .between = {}});
  return layers.back();
}

/// The members of LayerDiff that are about one side.
struct SideOfLayer {
  std::optional<double> LayerDiff::*bits, LayerDiff::*error, LayerDiff::*fisher, LayerDiff::*output;
};
constexpr SideOfLayer kSideA{&LayerDiff::bits_a, &LayerDiff::error_a, &LayerDiff::fisher_a, &LayerDiff::output_a};
constexpr SideOfLayer kSideB{&LayerDiff::bits_b, &LayerDiff::error_b, &LayerDiff::fisher_b, &LayerDiff::output_b};

void add_layers(const std::vector<TensorRecord>& tensors, const SideOfLayer& side, std::vector<LayerDiff>& layers) {
  for (const TensorRecord& tensor : tensors) {
    LayerDiff& layer = layer_called(tensor.name, layers);
    layer.*side.bits = tensor.bits_per_weight;
    layer.*side.error = tensor.relative_weight_error;
    layer.*side.fisher = tensor.fisher_error;
    layer.*side.output = tensor.output_error;
  }
}

/// Two models of one architecture, weight by weight.
struct Side {
  std::shared_ptr<const model::Checkpoint> checkpoint;
  model::Architecture architecture;
  quant::QuantizedWeights quantized;
  std::unique_ptr<model::WeightProvider> weights;
  Json figures;  // quantization.json by name; empty for a float model

  explicit Side(const std::filesystem::path& path) : checkpoint(model::open_checkpoint(path)) {
    architecture = checkpoint->architecture();
    quantized = quant::open_quantized_weights(checkpoint);
    weights = quant::make_weight_provider(checkpoint, quantized);
    constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;
    const auto file = path / "quantization.json";
    if (quantized.empty() || !std::filesystem::exists(file)) return;
    const auto json = parse_strict_json(read_text_file(file, kMaxBytes), fmt::format("'{}'", file.string()));
    if (!json.is_object() || !json.contains("tensors") || !json["tensors"].is_array()) return;
    for (const auto& tensor : json["tensors"])
      if (tensor.is_object() && tensor.value("name", nlohmann::json()).is_string())
        figures[tensor["name"].get<std::string>()] = tensor;
  }

  std::optional<double> figure(const std::string& name, const char* key) const {
    if (!figures.contains(name) || !figures[name].contains(key) || !figures[name][key].is_number()) return std::nullopt;
    return figures[name][key].get<double>();
  }
  void add_figures(const std::string& name, const SideOfLayer& side, LayerDiff& layer) const {
    layer.*side.bits = figure(name, "bits_per_weight");
    layer.*side.error = figure(name, "relative_weight_error");
    layer.*side.fisher = figure(name, "fisher_error");
    layer.*side.output = figure(name, "output_error");
  }
  Facts recipe() const {
    const Json json = Json::parse(checkpoint->metadata(), nullptr, false);
    Facts facts;
    if (json.is_object() && json.contains("quantization_config"))
      for (const auto& [key, value] : json["quantization_config"].items())
        if (key != "tensors") flatten(key, value, facts);
    return facts;
  }
};

}  // namespace

RecordDiff diff_records(const SweepRecord& a, const SweepRecord& b) {
  RecordDiff diff;
  diff.name_a = cell_name(a);
  diff.name_b = cell_name(b);
  add_settings(flattened(a.configuration), flattened(b.configuration), diff.settings);
  add_settings(a.environment, b.environment, diff.settings);
  if (!a.measures || !b.measures) {
    const auto outcome = [](const SweepRecord& record) { return record.error ? record.error->message : "ok"; };
    add_settings({{"outcome", outcome(a)}}, {{"outcome", outcome(b)}}, diff.settings);
    diff.same_measures = !a.measures && !b.measures && a.error->message == b.error->message;
    return diff;
  }
  diff.measures = measures_of(*a.measures, *b.measures);
  add_speeds(a.speeds, b.speeds, diff.measures);
  if (same_evaluation(a, b)) {
    diff.paired = paired_difference(b.measures->window_nll, a.measures->window_nll, loss_weights(a, b));
    if (a.measures->divergence && b.measures->divergence)
      diff.paired_kl = paired_difference(b.measures->divergence->window_nats, a.measures->divergence->window_nats,
                                         divergence_weights(a, b));
  }
  add_layers(a.measures->tensors, kSideA, diff.layers);
  add_layers(b.measures->tensors, kSideB, diff.layers);
  SweepRecord only_a = a, only_b = a;
  only_b.measures = b.measures;
  if (a.measures->window_tokens.empty() || b.measures->window_tokens.empty())  // earlier versions did not write them
    for (SweepRecord* record : {&only_a, &only_b}) record->measures->window_tokens.clear();
  diff.same_measures = record_text(only_a) == record_text(only_b);
  return diff;
}

CheckpointDiff diff_checkpoints(const std::filesystem::path& path_a, const std::filesystem::path& path_b) {
  const Side a(path_a), b(path_b);
  NIBBLE_REQUIRE(model::same_linear_layers(a.architecture, b.architecture), InvalidArgument,
                 "'{}' and '{}' have different layers: nothing to compare", path_a.string(), path_b.string());
  const auto layers = model::linear_layers(a.architecture);
  CheckpointDiff diff;
  add_settings(a.recipe(), b.recipe(), diff.settings);
  const quant::LoadedModel loaded_a = quant::load_model(path_a), loaded_b = quant::load_model(path_b);
  diff.measures = {{"bits_per_weight", loaded_a.bits_per_weight, loaded_b.bits_per_weight},
                   {"model_bits_per_weight", loaded_a.model_bits_per_weight, loaded_b.model_bits_per_weight},
                   {"model_bytes", static_cast<double>(a.checkpoint->tensor_bytes()),
                    static_cast<double>(b.checkpoint->tensor_bytes())}};

  std::vector<std::vector<LayerDiff>> found(layers.size());
  parallel_for(layers.size(), [&](std::size_t i) {
    const model::Parameter& layer = *layers[i];
    const auto left = a.weights->matrix(layer), right = b.weights->matrix(layer);
    constexpr std::size_t kRows = 64;
    ErrorSum error;
    Matrix<float> x(kRows, layer.in), y(kRows, layer.in);
    for (std::size_t row = 0; row < layer.out; row += kRows) {
      const std::size_t count = std::min(kRows, layer.out - row);
      left->decode_rows(row, row + count, x.data());
      right->decode_rows(row, row + count, y.data());
      for (std::size_t j = 0; j < count * layer.in; ++j)
        error.add(static_cast<double>(x.data()[j]), static_cast<double>(y.data()[j]));
    }
    LayerDiff& line = layer_called(layer.module, found[i]);
    a.add_figures(layer.module, kSideA, line);
    b.add_figures(layer.module, kSideB, line);
    line.between = error.of_nothing() ? std::numeric_limits<double>::infinity() : error.relative();
    left->release();
    right->release();
  });
  for (auto& lines : found) diff.layers.insert(diff.layers.end(), lines.begin(), lines.end());
  return diff;
}

}  // namespace nibble::eval

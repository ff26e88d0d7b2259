#include "quant/job/network/tuned_network.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/dtype.h"
#include "core/matrix/gemm.h"
#include "quant/job/network/shifted_bias.h"
#include "quant/job/shards/shard_source.h"
#include "quant/store/quantization_config.h"

namespace nibble::quant {
namespace {

double mean_square(MatrixView<const float> x) {
  double sum = 0.0;
  for (std::size_t r = 0; r < x.rows(); ++r)
    for (const float value : x.row(r)) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum / (static_cast<double>(x.rows()) * static_cast<double>(x.cols()));
}

// sum over all of a weight, decoded.
double sum_of_squares(const WeightSource& source) {
  std::vector<float> row(source.cols());
  double sum = 0.0;
  for (std::size_t i = 0; i < source.rows(); ++i) {
    source.decode_rows(i, i + 1, row.data());
    for (const float value : row) sum += static_cast<double>(value) * static_cast<double>(value);
  }
  return sum;
}

}  // namespace

// The weight of a layer; `tunable` is null where nothing of it is free.
struct TunedNetwork::Weight {
  std::size_t item = 0;
  InputScales input_scales;
  std::shared_ptr<const WeightSource> fixed;
  std::unique_ptr<TunableTensor> tunable;
  std::shared_ptr<const QuantizedTensor> stored;
  std::optional<Adam> adam;
  std::vector<double> gradient;
};

struct TunedNetwork::Bias {
  DType dtype = DType::kF16;
  bool free = false;
  std::vector<float> original, values, units, stored;
  std::optional<Adam> adam;
  std::vector<double> gradient;

  void round() {
    stored = values;
    if (dtype != DType::kF16) return;
    for (float& value : stored) {
      value = round_to_f16(value);
      NIBBLE_REQUIRE(std::isfinite(value), NumericalError, "tuning: a bias became too large for float16");
    }
  }
};

struct TunedNetwork::Layer {
  std::string module;
  Weight weight;
  Bias bias;
};

TunedNetwork::TunedNetwork(const std::shared_ptr<const model::Checkpoint>& checkpoint,
                           const model::Architecture& architecture, const Plan& plan, std::span<const Shard> shards,
                           const Tuning& tuning)
    : plan_(plan), tuning_(tuning) {
  std::map<std::string, std::shared_ptr<const WeightSource>> replaced;
  for (std::size_t i = 0; i < plan.items.size(); ++i)
    if (!plan.items[i].identity.block_linear)
      replaced[plan.items[i].identity.name] = shard_source(plan.items[i], shards[i]);
  network_.emplace(architecture, model::make_float_provider(checkpoint), std::move(replaced));
  add_layers(shards, *checkpoint);
  hooks_.on_linear_gradient = [this](const std::string& module, MatrixView<const float> x, MatrixView<const float> dy,
                                     const model::HookRows&) {
    if (const auto found = layers_.find(module); found != layers_.end()) take_gradient(*found->second, x, dy);
  };
}

TunedNetwork::~TunedNetwork() = default;

void TunedNetwork::add_layers(std::span<const Shard> shards, const model::Checkpoint& checkpoint) {
  for (std::size_t i = 0; i < plan_.items.size(); ++i) {
    const QuantizeItem& item = plan_.items[i];
    if (!item.identity.block_linear) continue;
    auto& layer = layers_[item.layer.module];
    layer = std::make_unique<Layer>();
    layer->module = item.layer.module;
    Weight& weight = layer->weight;
    weight.item = i;
    weight.input_scales = item.input_scales;
    if (!item.settings.coded()) {
      weight.fixed = shard_source(item, shards[i]);
    } else {
      QuantizedTensor tensor(item.identity.name,
                             stored_tensor(item.settings, item.source->rows(), item.source->cols()).spec,
                             shard_parts(shards[i]));
      weight.tunable = std::make_unique<TunableTensor>(
          std::move(tensor), Tunables{.palettes = tuning_.palettes, .scales = tuning_.scales, .codes = tuning_.codes});
      weight.adam.emplace(weight.tunable->size());
      weight.gradient.resize(weight.tunable->size());
    }
    const model::Stored& place = item.layer.bias;
    const auto shifted =
        std::find_if(plan_.biases.begin(), plan_.biases.end(), [&](auto& b) { return b.name == place.tensor; });
    Bias& bias = layer->bias;
    bias.original = model::bias_of(item.layer, network_->weights());
    if (shifted != plan_.biases.end()) {
      bias.dtype = shifted->dtype;
      bias.free = tuning_.biases && item.settings.shifting;  // of layers that are not shifted, nothing is added to it
      bias.original.resize(item.layer.out);
      bias.values = rows_of(place, shifted_bias(*shifted, plan_, shards, checkpoint));
      bias.adam.emplace(item.layer.out);
      bias.gradient.resize(item.layer.out);
      bias.round();
    } else {
      bias.stored = bias.original;
    }
    refresh(*layer);
  }
}

// What inputs are multiplied by, in this network, whose norms divide none of them.
std::shared_ptr<const WeightSource> TunedNetwork::unscaled(const Weight& weight) {
  if (!weight.tunable) return weight.fixed;
  return weight.input_scales ? unscale_columns(weight.stored, weight.input_scales) : weight.stored;
}

void TunedNetwork::refresh(Layer& layer) {
  Weight& weight = layer.weight;
  if (weight.tunable) weight.stored = weight.tunable->rounded();
  if (layer.bias.free) layer.bias.round();
  network_->replace(layer.module, unscaled(weight), layer.bias.stored);
}

void TunedNetwork::take_gradient(Layer& layer, MatrixView<const float> x, MatrixView<const float> dy) {
  gradient_.resize(std::max(gradient_.size(), dy.cols() * x.cols()));
  const MatrixView<float> gradient(gradient_.data(), dy.cols(), x.cols());
  parallel_gemm<float>(Transpose::kYes, Transpose::kNo, 1.0f, dy, x, 0.0f, gradient);
  Weight& weight = layer.weight;
  if (weight.tunable) {
    if (weight.input_scales)
      for (std::size_t i = 0; i < gradient.rows(); ++i)
        for (std::size_t j = 0; j < gradient.cols(); ++j) gradient(i, j) /= (*weight.input_scales)[j];
    weight.tunable->gradient(*weight.stored, gradient, weight.gradient);
  }
  Bias& bias = layer.bias;
  if (!bias.free) return;
  if (bias.units.empty()) {  // the typical size of the layer's outputs, were its inputs independent
    const double unit = std::sqrt(sum_of_squares(*unscaled(weight)) / static_cast<double>(dy.cols()) * mean_square(x));
    bias.units.assign(dy.cols(), static_cast<float>(unit));
  }
  std::fill(bias.gradient.begin(), bias.gradient.end(), 0.0);
  for (std::size_t t = 0; t < dy.rows(); ++t)
    for (std::size_t i = 0; i < dy.cols(); ++i) bias.gradient[i] += static_cast<double>(dy(t, i));
}

void TunedNetwork::step(double rate, double code_step) {
  std::vector<Layer*> layers;
  for (auto& [module, layer] : layers_) layers.push_back(layer.get());
  parallel_for(layers.size(), [&](std::size_t l) {
    Weight& weight = layers[l]->weight;
    if (weight.tunable) {
      weight.adam->step(rate, weight.gradient, weight.tunable->units(), weight.tunable->values());
      weight.tunable->move_codes(static_cast<float>(code_step));
    }
    Bias& bias = layers[l]->bias;
    // No unit: no gradient yet, as where no token chose an expert.
    if (bias.free && !bias.units.empty()) bias.adam->step(rate, bias.gradient, bias.units, bias.values);
    // An expert that no token of the next batch chooses has none, and is not to be given this one again.
    std::fill(weight.gradient.begin(), weight.gradient.end(), 0.0);
    std::fill(bias.gradient.begin(), bias.gradient.end(), 0.0);
    refresh(*layers[l]);
  });
}

// visit(values, gradients) of all that is free.
template <class Visit>
void TunedNetwork::for_each_free(const Visit& visit) const {
  for (const auto& [module, layer] : layers_) {
    Weight& weight = layer->weight;
    if (weight.tunable) visit(weight.tunable->values(), std::span<const double>(weight.gradient));
    if (layer->bias.free) visit(std::span(layer->bias.values), std::span<const double>(layer->bias.gradient));
  }
}

LargeVector<float> TunedNetwork::state() const {
  LargeVector<float> state;
  for_each_free([&](std::span<float> values, auto) { state.insert(state.end(), values.begin(), values.end()); });
  for (const auto& [module, layer] : layers_)
    if (layer->weight.tunable) {
      const std::span<const float> positions = layer->weight.tunable->positions();
      state.insert(state.end(), positions.begin(), positions.end());
    }
  return state;
}

std::vector<double> TunedNetwork::gradient() const {
  std::vector<double> all;
  for_each_free([&](auto, std::span<const double> own) { all.insert(all.end(), own.begin(), own.end()); });
  return all;
}

void TunedNetwork::restore(std::span<const float> state) {
  for_each_free([&](std::span<float> values, auto) {
    std::copy_n(state.begin(), values.size(), values.begin());
    state = state.subspan(values.size());
  });
  for (auto& [module, layer] : layers_)
    if (layer->weight.tunable) {
      const std::size_t count = layer->weight.tunable->positions().size();
      layer->weight.tunable->set_positions(state.first(count));
      state = state.subspan(count);
    }
  for (auto& [module, layer] : layers_) refresh(*layer);
}

std::shared_ptr<const QuantizedTensor> TunedNetwork::tensor(std::size_t item) const {
  const auto layer = layers_.find(plan_.items[item].layer.module);
  if (layer == layers_.end() || !plan_.items[item].identity.block_linear) return nullptr;
  return layer->second->weight.stored;
}

std::vector<float> TunedNetwork::bias_correction(std::size_t item) const {
  const auto layer = layers_.find(plan_.items[item].layer.module);
  if (layer == layers_.end() || !plan_.items[item].identity.block_linear || !layer->second->bias.free) return {};
  const Bias& bias = layer->second->bias;
  std::vector<float> correction(plan_.items[item].source->rows());
  for (std::size_t i = 0; i < correction.size(); ++i) correction[i] = bias.stored[i] - bias.original[i];
  return correction;
}

}  // namespace nibble::quant

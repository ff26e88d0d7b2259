#include "tests/quant/job/calibrated_models.h"

#include "calib/stats/stats_writer.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/weights.h"
#include "quant/store/load_model.h"
#include "tests/support/layers.h"

namespace nibble::test {

namespace fs = std::filesystem;
using quant::make_weight_provider;

model::Architecture config_of(const fs::path& model) { return model::Checkpoint::open(model)->architecture(); }

void write_calibration(const fs::path& file, const fs::path& model, const calib::StatisticSet& what, std::uint64_t seed,
                       calib::FisherFlavour flavour) {
  auto settings = calib::example_settings(what);
  settings.model_hash = model::Checkpoint::open(model)->fingerprint();
  settings.seeds = {seed};
  settings.flavour = flavour;
  calib::StatsWriter writer(file, settings);
  for (const auto& layer : test::layers_of(config_of(model)))
    writer.add(calib::example_layer(layer.module, layer.out, layer.in, seed++, what));
  writer.commit();
}

quant::QuantizeResult quantize(const fs::path& model, const fs::path& output, std::string_view yaml,
                               std::vector<fs::path> calibration, const ProgressSink& progress) {
  return quant::quantize_model({.model = model,
                                .output = output,
                                .recipe = quant::Recipe::parse(yaml, "recipe"),
                                .calibration = std::move(calibration),
                                .overwrite = true,
                                .progress = progress});
}

Matrix<float> weight_of(const fs::path& directory, const model::Parameter& layer) {
  const auto source = make_weight_provider(model::Checkpoint::open(directory))->matrix(layer);
  Matrix<float> w(source->rows(), source->cols());
  source->decode_rows(0, w.rows(), w.data());
  return w;
}

std::vector<float> bias_of(const fs::path& directory, const model::Parameter& layer) {
  const auto provider = make_weight_provider(model::Checkpoint::open(directory));
  return provider->contains(layer.bias.tensor) ? provider->vector(layer.bias) : std::vector<float>(layer.out);
}

}  // namespace nibble::test

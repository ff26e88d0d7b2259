#pragma once

#include <filesystem>

#include "calib/stats/stats_writer.h"
#include "model/architecture/architecture.h"
#include "model/checkpoint/checkpoint.h"
#include "tests/calib/stats/example_stats.h"
#include "tests/support/layers.h"

namespace nibble::test {

/// Made-up statistics of all linear layers of the blocks, as if they had been collected from `model`.
inline void write_calibration(const std::filesystem::path& file, const std::filesystem::path& model,
                              const calib::StatisticSet& what = calib::kEverything, std::uint64_t seed = 1,
                              calib::FisherFlavour flavour = calib::FisherFlavour::kSequence) {
  const auto checkpoint = model::Checkpoint::open(model);
  auto settings = calib::example_settings(what);
  settings.model_hash = checkpoint->fingerprint();
  settings.seeds = {seed};
  settings.flavour = flavour;
  calib::StatsWriter writer(file, settings);
  for (const auto& layer : test::layers_of(checkpoint->architecture()))
    writer.add(calib::example_layer(layer.module, layer.out, layer.in, seed++, what));
  writer.commit();
}

}  // namespace nibble::test

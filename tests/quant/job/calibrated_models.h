#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "calib/stats/layer_stats.h"
#include "core/matrix/matrix_view.h"
#include "model/architecture/architecture.h"
#include "quant/job/quantize_model.h"
#include "tests/calib/stats/example_stats.h"

namespace nibble::test {

model::Architecture config_of(const std::filesystem::path& model);

/// Made-up statistics of all linear layers of the blocks, as if they had been collected from `model`.
void write_calibration(const std::filesystem::path& file, const std::filesystem::path& model,
                       const calib::StatisticSet& what = calib::kEverything, std::uint64_t seed = 1,
                       calib::FisherFlavour flavour = calib::FisherFlavour::kSequence);

/// quantize_model() with a recipe as text; replaces `output`.
quant::QuantizeResult quantize(const std::filesystem::path& model, const std::filesystem::path& output,
                               std::string_view yaml, std::vector<std::filesystem::path> calibration,
                               const ProgressSink& progress = {});

/// The weight (out, in) and bias (out) of a layer as the model in `directory` computes with them; no bias: zeros.
Matrix<float> weight_of(const std::filesystem::path& directory, const model::Parameter& layer);
std::vector<float> bias_of(const std::filesystem::path& directory, const model::Parameter& layer);

}  // namespace nibble::test

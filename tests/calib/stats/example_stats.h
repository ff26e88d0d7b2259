#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "calib/stats/layer_stats.h"
#include "calib/stats/run_settings.h"
#include "core/random.h"

namespace nibble::calib {

inline constexpr StatisticSet kEverything = {
    .activations = true, .fisher = true, .hessian = true, .guided_hessian = true, .output_hessian = true};

/// Settings of a made-up run.
inline RunSettings example_settings(const StatisticSet& collected = kEverything, std::uint64_t windows = 3) {
  return {.model_hash = "model",
          .tokenizer_hash = "tokenizer",
          .text_hash = "text",
          .windows_hash = "windows",
          .sampling = "random slices",
          .windows = windows,
          .window_tokens = 7,
          .seeds = {5},
          .flavour = FisherFlavour::kSequence,
          .labels = Labels::kData,
          .centre = "none",
          .head = false,
          .collected = collected,
          .kernels = "kernels"};
}

/// A made-up layer whose numbers are consistent: X, dY and G are drawn, then summed in plain double loops.
inline LayerStats example_layer(std::string module, std::size_t out, std::size_t in, std::uint64_t seed,
                                const StatisticSet& what = kEverything, std::uint64_t windows = 3) {
  Random random(seed);
  const std::size_t tokens = windows * 7;
  LayerSums sums(std::move(module), out, in, what);
  sums.tokens = tokens;
  sums.samples = windows;
  for (std::size_t t = 0; t < tokens; ++t) {
    std::vector<double> x(in);
    for (double& value : x) value = 0.5 + random.normal();
    const double s = random.uniform();
    if (what.guided_hessian) {
      sums.sum_s += s;
      *sums.sum_s2 += s * s;
    }
    for (std::size_t i = 0; i < in; ++i) {
      if (what.activations) {
        sums.sum_x[i] += x[i];
        sums.sum_x2[i] += x[i] * x[i];
        sums.sum_abs_x[i] += std::abs(x[i]);
        sums.min_x[i] = std::fmin(sums.min_x[i], static_cast<float>(x[i]));
        sums.max_x[i] = std::fmax(sums.max_x[i], static_cast<float>(x[i]));
      }
      if (what.guided_hessian) sums.sum_s_x[i] += s * x[i];
      for (std::size_t j = 0; j < in; ++j) {
        if (what.hessian) sums.sum_xxt(i, j) += x[i] * x[j];
        if (what.guided_hessian) sums.sum_s_xxt(i, j) += s * x[i] * x[j];
      }
    }
  }
  for (double& f : sums.fisher.values()) f = std::exp(random.normal());
  Random gradients(seed + 1000);  // of its own: the numbers above do not depend on what else is collected
  for (std::size_t t = 0; t < tokens && what.output_hessian; ++t) {
    std::vector<double> dy(out);
    const double common = gradients.normal();
    for (double& value : dy) value = common + gradients.normal();
    for (std::size_t i = 0; i < out; ++i)
      for (std::size_t j = 0; j < out; ++j) sums.sum_dydyt(i, j) += dy[i] * dy[j];
  }
  return sums.rounded();
}

}  // namespace nibble::calib

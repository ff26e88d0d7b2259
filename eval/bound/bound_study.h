#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/progress.h"
#include "eval/bound/synthetic_layer.h"
#include "quant/recipe/recipe.h"
#include "quant/recipe/settings.h"

namespace nibble::eval {

struct Method {
  std::string name;
  quant::Recipe recipe;
};

/// A mean over layers and its standard error: the standard deviation over the square root of their number (NaN of one).
struct OverLayers {
  double mean = 0.0, standard_error = 0.0;
};

/// How near a method comes to what is possible.
struct MethodBound {
  std::string name;
  double bits_per_weight = 0.0;  ///< all-in: codes, palettes, scales, a bias that shifting adds
  OverLayers error;              ///< tr(G Δ H Δᵀ) / tr(G W H Wᵀ)
  double bound = 0.0;            ///< the least that so many bits allow, likewise, mean over layers
  OverLayers decibels;           ///< 10 log₁₀(error / bound)
  OverLayers bits;               ///< bits_per_weight less those with which `error` would be possible
  double seconds = 0.0;          ///< of quantizing all layers
};

struct BoundStudyOptions {
  std::uint64_t layers = 3;
  std::uint64_t seed = 0;      ///< of the first layer; the others follow
  ProgressSink progress = {};  ///< in weights quantized
};

/// The settings that a recipe means for a synthetic layer: its defaults, or the rule that matches "layer.weight".
quant::TensorSettings settings_of_layer(const quant::Recipe& recipe);

/// Quantizes synthetic layers (the same for all methods) by each method under their exact statistics, as a job does a
/// layer of a model that has no bias, and compares the errors with the rate-distortion bound (SyntheticLayer::bound()).
/// Methods in the order given.
///
/// Throws InvalidArgument, before any work, for a recipe that asks for what a layer alone has not: a budget, tuning,
/// `sequential`, `input_scaling`, `cluster_dim` that does not divide the columns, or `float16`, which is no
/// quantization; as make_layer(). NumericalError, naming method and layer, as quantize_tensor(), and for a layer so
/// small that nothing is left to compare: no error at all, or bits that allow none in double.
/// Cost  of each layer make_layer(); of each method on it, quantizing and weighed_error(). Memory  32 bytes a weight,
/// 40 for each element of H and G, and what a method needs.
std::vector<MethodBound> study_bound(const LayerModel& model, std::span<const Method> methods,
                                     const BoundStudyOptions& options = {});

}  // namespace nibble::eval

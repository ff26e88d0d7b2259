#pragma once

#include <optional>
#include <vector>

#include "eval/report/document.h"
#include "eval/report/pivot.h"

namespace nibble::eval {

// The drawings of a report, each with its figures as a table. Empty where the entries have nothing to draw.

/// KL divergence, where all quantized entries have it, and perplexity, each over bits per weight of the linear layers
/// and of the whole model, with two standard errors and the Pareto front (pareto_front()): of entries of one model and
/// evaluation.
std::vector<Figure> pareto_figures(const Entries& comparable);

/// What changing one setting of a recipe, and nothing else, does to the KL divergence, where all quantized entries have
/// it, else to the loss: every pair of entries that differ in one setting only, by setting and bits, with the paired
/// errors. Of entries of one model and evaluation.
std::optional<Figure> modification_figure(const Entries& comparable);

/// Two heat maps over blocks and kinds of layers: the output error (or the weights' where no Hessian was at hand) and
/// the Fisher-weighted error, which estimates what the layer costs the loss.
std::optional<Figure> layer_figure(const Entry& entry);

/// Histograms of weights with their palettes, of some layers of the first, the middle and the last block.
std::optional<Figure> palette_figure(const Entry& entry);

/// Tokens decoded per second over the size of the context, per recipe; of entries that measured speed.
std::optional<Figure> speed_figure(const Entries& entries);

}  // namespace nibble::eval

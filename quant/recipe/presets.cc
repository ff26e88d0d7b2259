#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>

#include "core/error.h"
#include "core/text/suggest.h"
#include "quant/recipe/recipe.h"

namespace nibble::quant {
namespace {

struct Preset {
  std::string_view name, text, more = {}, rest = {}, end = {};  // the texts in their order
};

// What `scalar` and all that begins with its name have in common.
constexpr std::string_view kScalar = R"(defaults:
  format: palette
  bits: 4
  granularity: tensor
  weighting: hessian
  weighting_scale: objective
  scaling: std
  sign: search
  joint_iterations: 4
  shifting: true
  solver: coordinate-descent
  hessian: guided-centred
  output_hessian: true
  codebook_iterations: 4
)";

// What `windowed` and `best` and all that begins with their names have in common: the text goes on with bits and
// window_bits.
constexpr std::string_view kWindowed = R"(defaults:
  format: palette
  granularity: tensor
  weighting: hessian
  scaling: std
  shifting: true
  solver: coordinate-descent
  hessian: guided-centred
  output_hessian: true
  codebook_iterations: 4
)";

// What makes up for errors that layers before have made, and needs text; `-one-shot` presets are without it.
constexpr std::string_view kCorrected = R"(  sequential: true
  drift_correction: 1
)";

// Formats that other programs read, and behind them, for the presets that end with `-solved`, how codes are solved for;
// kCorrected comes with it. No biases are corrected: programs read none where the model has none.
constexpr std::string_view kIq4Nl = R"(defaults:
  format: block-palette
  palette: iq4_nl
  group_size: 32
)";
constexpr std::string_view kIq4Xs = R"(defaults:
  format: block-palette
  palette: iq4_nl
  group_size: 32
  super_block: 256
)";
constexpr std::string_view kGgufQ3K = R"(defaults:
  format: uniform
  bits: 3
  group_size: 16
  super_block: 256
)";
constexpr std::string_view kGgufQ4 = R"(defaults:
  format: int4-block
  group_size: 32
  int4_scale: extreme-8
)";
constexpr std::string_view kGgufQ5 = R"(defaults:
  format: uniform
  bits: 5
  group_size: 32
)";
constexpr std::string_view kMlx = R"(defaults:
  format: int4-block
  group_size: 64
  int4_scale: extreme-8
)";
constexpr std::string_view kCompressedTensors = R"(defaults:
  format: int4-block
  group_size: 128
  int4_scale: absmax-7.5
)";
constexpr std::string_view kAnePalette = R"(defaults:
  format: palette
  bits: 4
  granularity: channel-group
  group_size: 16
)";
constexpr std::string_view kSearched = "  search: error\n";
constexpr std::string_view kSolved = R"(  search: hessian
  solver: coordinate-descent
  hessian: guided
  output_hessian: true
)";

constexpr auto kPresets = std::to_array<Preset>({
    {"palette", R"(# One palette of 16 values for each tensor, by exact k-means. Needs no calibration.
defaults:
  format: palette
  bits: 4
  granularity: tensor
)"},
    {"int4-block",
     R"(# Blocks of 32 inputs, 4-bit integers times a float16 scale (the layout of Q4_0). Needs no calibration.
)",
     kGgufQ4},
    {"whole-tensor",
     R"(# "Whole-Tensor 4 Bit Quantization" (Panaro 2024), step for step: Fisher-weighted k-means over the whole tensor
# after dividing each output row by its standard deviation, signs flipped to align the rows' skews, and the bias
# corrected by the mean input.
defaults:
  format: palette
  bits: 4
  granularity: tensor
  weighting: fisher
  weighting_scale: plain
  scaling: std
  sign: flip
  shifting: true
)"},
    {"squeezellm",
     R"(# SqueezeLLM (Kim et al. 2024), the dense part: a Fisher-weighted palette for each output row, here by exact k-means.
# Its sparse part: --set outliers_sensitive=0.0005 --set outliers_large=0.004
defaults:
  format: palette
  bits: 4
  granularity: channel
  weighting: fisher
)"},
    {"gptq",
     R"(# GPTQ (Frantar et al. 2023): error feedback through the inverse Hessian, damped by its mean diagonal, on a min-max grid per
# output row. Models with a few loud inputs: --set damping_by=own (docs/results/damping.md)
defaults:
  format: uniform
  bits: 4
  group_size: 0
  zero_point: true
  solver: gptq
  hessian: plain
  act_order: true
  damping: 0.01
  damping_by: mean
)"},
    {"scalar",
     R"(# One palette per tensor and one code per weight, as good as codes of that kind get: `scalar-one-shot`, and each layer makes up
# for the errors that those before it have made, by the text that `nibble quantize --text` (or --tokens) gives, which may be that of the
# calibration: docs/results/drift.md. A palette per row instead:
#   --set granularity=channel --set scaling=none --set sign=plain --set joint_iterations=0
)",
     kScalar, kCorrected},
    {"scalar-one-shot",
     R"(# One palette per tensor and one code per weight by statistics alone: fitted to the diagonal of the Hessians, rows
# scaled with signs searched, then error feedback, coordinate descent and the best palettes and scales in turns under the centred
# Hessian weighted by the loss and, across rows, that of the gradients at the outputs; the bias corrected. What each of them is worth: docs/results/parts.md.
)",
     kScalar},
    {"scalar-mixed",
     R"(# `scalar` with the width of each tensor's palette chosen by predicted loss, 4.08 bits all-in over all of them. Another
# size: --set budget.bits_per_weight=3.08; at 2.08 --set budget.bits=1,2,3,4 too. With probes
# 2 to 7 % better at 2.08 bits on one draw (docs/results/budget.md): --set budget.probe_windows=16. A palette per row instead:
#   --set granularity=channel --set scaling=none --set sign=plain --set joint_iterations=0
#   --set budget.granularity=channel --set budget.bits_per_weight=4.6
)",
     kScalar, kCorrected,
     R"(budget:
  bits_per_weight: 4.08
  bits: [2, 3, 4, 6]
  granularity: [tensor]
)"},
    {"scalar-tuned",
     R"(# `scalar`, then its palettes, scales, biases and codes trained end to end towards the float model's distributions on the
# same text; no further bits. It takes 5 to 8 % off `scalar` at 2 bits (docs/results/drift.md), 9 to 33 % off one-shot codes (docs/results/tuning.md).
)",
     kScalar, kCorrected,
     R"(tuning:
  epochs: 4
  learning_rate: 0.001
  train: [palettes, scales, biases, codes]
)"},
    {"windowed",
     R"(# `windowed-one-shot`, and each layer makes up for the errors that those before it have made, by the text that
# `nibble quantize --text` (or --tokens) gives: docs/results/drift.md. Better still, and up to twice as long to make: preset best.
# More bits: --set bits=3
)",
     kWindowed, kCorrected, "  bits: 2\n  window_bits: 6\n"},
    {"windowed-one-shot",
     R"(# A palette of 64 values read through overlapping windows of 6 bits, 2 bits a weight, by statistics alone: each window is the best of all
# bit streams (Viterbi), with rows scaled, error feedback through every input, coordinate descent and the best palettes and scales
# in turns under the centred Hessian weighted by the loss and, across rows, that of the gradients at the outputs; the bias
# corrected: docs/results/windowed.md.
)",
     kWindowed, "  bits: 2\n  window_bits: 6\n"},
    {"windowed-mixed",
     R"(# `windowed` with the bits of each tensor's streams chosen by predicted loss, 2.1 bits all-in over all of them.
# What budgets bring: docs/results/budget.md. Another size: --set budget.bits_per_weight=3.1
)",
     kWindowed, kCorrected,
     R"(  bits: 2
  window_bits: 6
budget:
  bits_per_weight: 2.1
  bits: [1, 2, 3, 4]
  granularity: [tensor]
)"},
    {"best",
     R"(# The least divergence of all methods that were measured, at any width, with the same width in every tensor and without tuning
# (docs/results/quality.md): `windowed` with 256 values read through windows of 8 bits, here at 4 bits a weight; `nibble quantize` needs
# --text (or --tokens), which may be that of the calibration. Programs that want a code per weight
# (Core ML) cannot hold it: preset scalar is for them. Other widths: --set bits=2
)",
     kWindowed, kCorrected, "  bits: 4\n  window_bits: 8\n"},
    {"best-2-bit",
     R"(# `best` at 2 bits a weight, where what layers before got wrong is large enough that guided Hessians are carried along with it:
# 2.7 % less than `best` at 2 bits on one of two models, level on the other (docs/results/parts.md). At 3 and 4 bits: preset best.
)",
     kWindowed, kCorrected, "  guided_inputs: drifted\n  bits: 2\n  window_bits: 8\n"},
    {"best-one-shot",
     R"(# The least divergence of methods that need statistics and no text when they quantize: `windowed-one-shot` with 256 values
# read through windows of 8 bits, here at 4 bits a weight. Other widths: --set bits=2
)",
     kWindowed, "  bits: 4\n  window_bits: 8\n"},
    {"best-mixed",
     R"(# `best` with the bits of each tensor's streams chosen by predicted loss, 3.1 bits all-in over all of them: a third to
# half less divergence than one width for all (docs/results/drift.md; of one-shot codes: docs/results/budget.md). Another size:
# --set budget.bits_per_weight=2.1; at 4.1, where streams end at 4 bits, codes of their own for the widths beyond:
#   --set budget.bits=3,4,5,6 --set budget.window_bits=0,8
)",
     kWindowed, kCorrected,
     R"(  bits: 3
  window_bits: 8
budget:
  bits_per_weight: 3.1
  bits: [1, 2, 3, 4]
  granularity: [tensor]
)"},
    {"best-tuned",
     R"(# `best`, then its palettes, scales and biases trained end to end towards the float model's distributions on the same
# text; no further bits. It takes 3 to 4 % off `best` at 2 bits (docs/results/drift.md), 6 to 31 % off one-shot codes (docs/results/tuning.md).
)",
     kWindowed, kCorrected,
     R"(  bits: 4
  window_bits: 8
tuning:
  epochs: 4
  learning_rate: 0.001
)"},
    {"nf4",
     R"(# NF4 (QLoRA, Dettmers et al. 2023): quantiles of the normal distribution times a float16 scale for 64 inputs.
defaults:
  format: block-palette
  palette: nf4
  group_size: 64
  search: error
)"},
    {"iq4_nl",
     R"(# The values of ggml's IQ4_NL: sixteen integers, denser near 0, times a float16 scale for 32 inputs.
)",
     kIq4Nl, kSearched},
    {"iq4_nl-solved",
     R"(# `iq4_nl`, each scale searched and each code solved for under the Hessians of a layer's inputs and of its outputs, and what layers
# before have got wrong made up for: a file like any other of IQ4_NL that diverges a fifth as much and less (docs/exports.md).
# `nibble quantize` needs --text (or --tokens), which may be that of the calibration. Without, like others that end with -solved:
#   --set sequential=false --set drift_correction=0
)",
     kIq4Nl, kSolved, kCorrected},
    {"iq4_xs",
     R"(# What `nibble export --format gguf` writes as IQ4_XS: the values of IQ4_NL, scales of 6 bits for 32 inputs times a float16
# for 256. Needs no calibration.
)",
     kIq4Xs, kSearched},
    {"iq4_xs-solved",
     R"(# `iq4_xs`, scales searched, codes solved for and errors of layers before made up for, as in iq4_nl-solved (docs/exports.md);
# needs --text (or --tokens).
)",
     kIq4Xs, kSolved, kCorrected},
    {"mxfp4",
     R"(# MXFP4 (OCP MX 1.0): 4-bit floats (E2M1) times a power of two (E8M0) for 32 inputs.
defaults:
  format: block-palette
  palette: fp4
  block_scale: e8m0
  group_size: 32
  search: error
)"},
    {"nvfp4",
     R"(# NVFP4: 4-bit floats (E2M1) times an 8-bit float (E4M3) for 16 inputs and a float32 for the tensor.
defaults:
  format: block-palette
  palette: fp4
  block_scale: e4m3
  group_size: 16
  search: error
)"},
    {"gguf-q3_k",
     R"(# What `nibble export --format gguf` writes as Q3_K: 3 bits, scales of 6 bits for 16 inputs times a float16 for 256. Needs
# no calibration.
)",
     kGgufQ3K, kSearched},
    {"gguf-q3_k-solved",
     R"(# `gguf-q3_k`, scales searched, codes solved for and errors of layers before made up for, as in iq4_nl-solved (docs/exports.md);
# needs --text (or --tokens).
)",
     kGgufQ3K, kSolved, kCorrected},
    {"gguf-q4_0",
     R"(# What `nibble export --format gguf` writes as Q4_0: 4 bits and a float16 scale for 32 inputs, each scale searched for
# the least squared error. Needs no calibration.
)",
     kGgufQ4, kSearched},
    {"gguf-q4_0-solved",
     R"(# `gguf-q4_0`, scales searched, codes solved for and errors of layers before made up for, as in iq4_nl-solved (docs/exports.md);
# needs --text (or --tokens).
)",
     kGgufQ4, kSolved, kCorrected},
    {"gguf-q5_0",
     R"(# What `nibble export --format gguf` writes as Q5_0: 5 bits and a float16 scale for 32 inputs, searched. Needs no
# calibration.
)",
     kGgufQ5, kSearched},
    {"gguf-q5_0-solved",
     R"(# `gguf-q5_0`, scales searched, codes solved for and errors of layers before made up for, as in iq4_nl-solved (docs/exports.md);
# needs --text (or --tokens).
)",
     kGgufQ5, kSolved, kCorrected},
    {"gguf-q8_0",
     R"(# What `nibble export --format gguf` writes as Q8_0: 8 bits and a float16 scale for 32 inputs. Needs no calibration.
defaults:
  format: uniform
  bits: 8
  group_size: 32
)"},
    {"mlx-4bit",
     R"(# What `nibble export --format mlx` holds in its usual form: 4 bits and a float16 scale for 64 inputs, each scale
# searched for the least squared error. Needs no calibration.
)",
     kMlx, kSearched},
    {"mlx-4bit-solved",
     R"(# `mlx-4bit`, scales searched, codes solved for and errors of layers before made up for, as in iq4_nl-solved (docs/exports.md);
# needs --text (or --tokens).
)",
     kMlx, kSolved, kCorrected},
    {"compressed-tensors-4bit",
     R"(# What `nibble export --format compressed-tensors` (and gptq, awq) holds in its usual form: 4 bits and a float16 scale
# for 128 inputs, positive as quantizers there make them, searched for the least squared error. Needs no calibration.
)",
     kCompressedTensors, kSearched},
    {"compressed-tensors-4bit-solved",
     R"(# `compressed-tensors-4bit` (and for gptq), scales searched, codes solved for and errors of layers before made up for, as in
# iq4_nl-solved (docs/exports.md); needs --text (or --tokens).
)",
     kCompressedTensors, kSolved, kCorrected},
    {"ane-palette",
     R"(# What `nibble export --format coreml` holds exactly and the Neural Engine decodes by itself: a palette of 16 float16
# values for each group of 16 output rows, by exact k-means. Needs no calibration.
)",
     kAnePalette},
    {"ane-palette-solved",
     R"(# `ane-palette`, palettes and codes solved for and errors of layers before made up for, as in iq4_nl-solved (docs/exports.md);
# needs --text (or --tokens). Fewer bits: --set bits=3
)",
     kAnePalette, R"(  weighting: hessian
  solver: coordinate-descent
  hessian: guided
  output_hessian: true
  codebook_iterations: 4
)",
     kCorrected},
    {"gptq-4bit",
     R"(# What `nibble export --format gptq` holds in its usual form, by its method: 4 bits and a positive float16 scale for 128
# inputs, error feedback through the inverse Hessian, damped by its mean diagonal.
)",
     kCompressedTensors, R"(  solver: gptq
  hessian: plain
  act_order: true
  damping: 0.01
  damping_by: mean
)"},
});

constexpr auto kNames = [] {
  std::array<std::string_view, kPresets.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kPresets[i].name;
  return names;
}();

}  // namespace

std::span<const std::string_view> Recipe::preset_names() { return kNames; }

std::string_view Recipe::preset_text(std::string_view name) {
  const auto preset = std::find_if(kPresets.begin(), kPresets.end(), [&](const Preset& p) { return p.name == name; });
  NIBBLE_REQUIRE(preset != kPresets.end(), InvalidArgument, "unknown preset '{}'; expected {}{}", name,
                 fmt::join(kNames, ", "), did_you_mean(name, kNames));
  static const auto texts = [] {
    std::array<std::string, kPresets.size()> all;
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = fmt::format("{}{}{}{}", kPresets[i].text, kPresets[i].more, kPresets[i].rest, kPresets[i].end);
    return all;
  }();
  return texts[static_cast<std::size_t>(preset - kPresets.begin())];
}

Recipe Recipe::preset(std::string_view name) { return parse(preset_text(name), fmt::format("preset {}", name)); }

}  // namespace nibble::quant

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/gguf/gguf_names.h"
#include "model/gguf/gguf_value.h"

namespace nibble::model {

/// What the metadata say of rotary embeddings is one for the whole network: that of the blocks without a window (of
/// which llama.cpp derives those with one where an architecture has both). Null where nothing turns.
const RotarySpec* gguf_rotary(const Architecture& architecture);

/// What llama.cpp multiplies sines and cosines by under YaRN, 0.1 · multiplier · ln(factor) + 1; 1 for factors up to 1.
double gguf_yarn_magnitude(double factor, double multiplier);

/// Adds `A.rope.*`. Throws InvalidArgument for scalings that it does not know.
void add_gguf_rotary(GgufMetadata& metadata, const Architecture& architecture, const GgufArchitecture& names);

/// How many lists of factors the frequencies are divided by: one under llama3's rule and under longrope with the same
/// factors for short and long texts (as which files with `rope_freqs` are read), two under any other longrope, else 0.
std::size_t gguf_factor_lists(const Architecture& architecture);

/// The tensors of these factors: `rope_freqs.weight` for one list, `rope_factors_long.weight` and `_short` for two and
/// where `names` has no other. Empty for all others.
std::vector<std::pair<std::string, std::vector<float>>> gguf_rotary_factors(const Architecture& architecture,
                                                                            const GgufArchitecture& names);

}  // namespace nibble::model

#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "core/progress.h"

namespace nibble::model {

struct SynthesizeOptions {
  std::uint64_t seed = 0;
  bool overwrite = false;
  ProgressSink progress = {};  ///< in bytes written
};

/// Writes a checkpoint of the architecture that `config` (the text of a config.json) describes, with random float16
/// weights: for work on speed and memory where the real one is not at hand. It predicts nothing.
///
/// Weights   linear layers N(0, 1/in), those that write to the residual stream (attention output, MLP output) divided
///           by √(2 layers) on top, embeddings N(0, 0.02²), norms 1, biases 0: every activation stays of order one.
///           Deviates are drawn from a table of 65,536 equally likely quantiles of the normal distribution, so the
///           largest is 4.3 deviations out.
/// Result    the same seed gives the same bytes with any number of threads.
/// Cost      about 1 ns per weight and thread, then the disk. Memory: 4 MB per thread. The directory appears under its
///           name only when complete.
/// Throws InvalidArgument as OutputDirectory does; FormatError for a malformed `config`, a disk without room
/// for the weights (before any is made) or a full one; then nothing is left of it.
void synthesize_model(std::string_view config, const std::filesystem::path& output, const SynthesizeOptions& options);

}  // namespace nibble::model

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "eval/quality/perplexity_options.h"

namespace nibble::cli {

// How perplexity and evaluate name the protocol of a result (docs/protocols.md).

/// The stride of `options`, whose protocol and context are set: `given`, or where that is 0 what the protocol has.
/// Throws InvalidArgument where one is given and windows do not overlap.
std::uint64_t stride_of(const eval::PerplexityOptions& options, std::uint64_t given);

/// What windows' losses are averaged over: "windows" or "tokens".
std::string_view average_name(const eval::PerplexityOptions& options);

/// "sliding, context 1,024, stride 512, mean over windows".
std::string protocol_fact(const eval::PerplexityOptions& options);

}  // namespace nibble::cli
